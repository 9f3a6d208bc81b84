import { readFileSync } from "node:fs";

/** One frame of docs/protocol/examples.jsonl. */
export type Example = Readonly<Record<string, unknown>> & { readonly type: string };

/** The examples that the documentation shows: every type, every optional field. */
export const examples: readonly Example[] = readFileSync(
  new URL("../../docs/protocol/examples.jsonl", import.meta.url),
  "utf8",
)
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Example);

/** What may be left out, told apart from the schemas: the type of the frame, then the path. */
export const optionalFields: readonly RegExp[] = [
  / (source|prev_task_seq)$/,
  / source\.(agentKey|agentName|sessionId|parentSessionId|taskId)$/,
  / task\.(?!(id|object|status)$)\w+$/,
  / task\.error\.(hint|where(\.taskId|\.path)?)$/,
  / task\.suspension\.(approval_ids|waiting_on|expires_at)$/,
  / task\.approvals\[\]\.(?!(approval_id|kind)$)\w+$/,
  /usage\.(cached_input_tokens|cache_write_tokens|reasoning_tokens)$/,
  /(output_item\.\w+ item|output\[\])\.(status|content|encrypted_content|provider_call_id)$/,
  /(output_item\.\w+ item|output\[\])\.(arguments_status|child_task_id|error|message_id|progress|purpose)$/,
  /^task\.output_item\.added item\.question$/,
  /^task\.output_item\.done item\.(summary|name|arguments|role|block_list|error\.retryable)$/,
  /(output_item\.\w+ item|output\[\])\.references$/,
  /(reference|references\[\])\.(url|title|mime_type)$/,
  /(hint|hints\[\])\.from_task_id$/,
  /^task\.snapshot final$/,
  /(summary|content)\[\]\.status$/,
  /progress\.(total|message)$/,
  /(block_list\[\]|task\.(text|image|block)\.\w+ item)\.(id|reference_id|status|annotations)$/,
  /(block_list\[\]|task\.(text|image|block)\.\w+ item)\.(mime_type|width|height|filename|points)$/,
  /block_list\[\]\.partial_image_index$/,
  /(annotation|annotations\[\])\.(marker|target)$/,
  /^task\.suspended (approval_ids|waiting_on|expires_at|generate_reason)$/,
  /^task\.cancelling (requested_by|reason)$/,
  /^task\.tool_result\.progress (total|message)$/,
  /^task\.child\.started (remote|agent\.name)$/,
  /^task\.child\.finished usage$/,
  /^task\.approval\.requested (call_id|name|arguments)$/,
  /^task\.approval\.requested (item_id|output_index|message|options|response_schema|expires_at|edited)$/,
  /^task\.approval\.resolved (by|reason)$/,
  /^task\.usage (by_model|cost)$/,
  /by_model\[\]\.(?!(provider|model|input_tokens|output_tokens)$)\w+$/,
  /^error (task_id|hint|oldest_sequence_number|source)$/,
  /^stream\.opened filter(\.\w+)?$/,
];

/** Where anything may stand: the application's own values, and what belongs to unknown items and blocks. */
export const freeFields = / (value|task\.structured|item\.question|item\.block_list\[\]\.points)$/;
/** Objects whose insides are the application's own. */
const closedFields = / (task\.metadata|task\.state|(task\.approvals\[\]\.)?response_schema)$/;
/** Where only certain words may stand. */
export const wordFields =
  /( task\.object|status|mode|kind|decision|generate_reason|role|purpose|options\[\]|annotations?(\[\])?\.type|(suspended|discarded|closed) reason|(incomplete_details|suspension)\.reason)$/;
/** Numbers that may be broken or below zero. */
export const measureFields = /( |\.)(progress|total)$/;

/** A place in a frame. */
export interface Place {
  /** The frame's type and the path, list positions as `[]`. */
  readonly name: string;
  readonly path: readonly (string | number)[];
  readonly value: unknown;
}

/** Every place in a frame that the protocol has a say about. */
export function placesOf(example: Example): readonly Place[] {
  const places: Place[] = [];
  const visit = (value: unknown, path: readonly (string | number)[], name: string): void => {
    if (path.length > 0) places.push({ name, path, value });
    if (freeFields.test(name) || closedFields.test(name)) return;
    if (Array.isArray(value)) {
      value.forEach((entry, index) => {
        visit(entry, [...path, index], `${name}[]`);
      });
    } else if (typeof value === "object" && value !== null) {
      const separator = path.length === 0 ? " " : ".";
      for (const [key, inner] of Object.entries(value)) {
        visit(inner, [...path, key], `${name}${separator}${key}`);
      }
    }
  };
  visit(example, [], example.type);
  return places;
}

/** A copy of a frame with another value at a place; without a value the field is gone. */
export function changed(example: Example, { path }: Place, ...value: readonly unknown[]): unknown {
  const copy = structuredClone(example) as unknown;
  const last = path[path.length - 1] as string | number;
  const holder = path
    .slice(0, -1)
    .reduce((inner, key) => (inner as Record<string | number, unknown>)[key], copy) as Record<
    string | number,
    unknown
  >;
  if (value.length > 0) holder[last] = value[0];
  else delete holder[last];
  return copy;
}
