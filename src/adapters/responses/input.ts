import { RivuletError } from "../../base/error.ts";
import { isObject } from "../../base/plain.ts";
import {
  type Answer,
  type Approval,
  type Block,
  type InputMessage,
  type OutsideTool,
  parseJson,
} from "../../contract/index.ts";
import { mediaBlock } from "../foreign-media.ts";

type Item = Readonly<Record<string, unknown>>;

function invalidInput(message: string, hint: string): RivuletError {
  return new RivuletError("invalid_input", message, { hint });
}

/** The items of a request; a text is a message of the user. */
export function readItems(input: unknown): readonly Item[] {
  if (input === undefined) return [];
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  return (input as readonly unknown[]).map((item, index) => {
    if (isObject(item)) return item;
    throw invalidInput(`\`input[${index}]\` must be an object.`, "Send items.");
  });
}

/** The results and decisions among the items of a request, as answers to what a task waits for. */
export function answersIn(items: readonly Item[], waiting: readonly Approval[]): readonly Answer[] {
  return items.flatMap((item) => {
    const { type, call_id, output, approval_request_id, approve, reason } = item;
    if (type === "function_call_output") {
      const asked = waiting.find(({ kind, call }) => kind === "external" && call.id === call_id);
      return asked ? [asked.answer(outputText(output))] : [];
    }
    if (type !== "mcp_approval_response") return [];
    const asked = waiting.find(({ id }) => id === approval_request_id);
    if (asked === undefined) return [];
    const why = typeof reason === "string" ? reason : undefined;
    return [approve === true ? asked.approve() : asked.deny(why)];
  });
}

/** Whether an item answers a call or an approval. */
export function isAnswer({ type }: Item): boolean {
  return type === "function_call_output" || type === "mcp_approval_response";
}

/** The items as messages, for a session that does not have them. */
export function messagesIn(
  instructions: string | undefined,
  items: readonly Item[],
): readonly InputMessage[] {
  const system: readonly InputMessage[] =
    instructions === undefined ? [] : [{ role: "system", content: instructions }];
  return [...system, ...items.flatMap((item, index) => messageOf(item, `input[${index}]`))];
}

function messageOf(item: Item, place: string): readonly InputMessage[] {
  const { type = "message", role, content, call_id, name, arguments: input, output } = item;
  switch (type) {
    case "message": {
      const ours = role === "developer" ? "system" : role;
      if (ours !== "system" && ours !== "user" && ours !== "assistant")
        throw invalidInput(
          `\`${place}.role\` must be "user", "assistant", "system" or "developer".`,
          "Send a message with one of them.",
        );
      return [{ role: ours, content: contentOf(content, `${place}.content`) }];
    }
    case "function_call": {
      const call = {
        type: "tool_use" as const,
        id: idOf(call_id, `${place}.call_id`),
        name: idOf(name, `${place}.name`),
        input: parseJson(typeof input === "string" ? input : "{}"),
      };
      return [{ role: "assistant", content: [call] }];
    }
    case "function_call_output": {
      const result = {
        type: "tool_result" as const,
        id: idOf(call_id, `${place}.call_id`),
        name: typeof name === "string" ? name : "",
        output: [{ type: "text" as const, text: outputText(output) }],
        state: "success" as const,
      };
      return [{ role: "tool", content: [result] }];
    }
    default:
      return []; // reasoning and references are of the model that wrote them
  }
}

function idOf(value: unknown, place: string): string {
  if (typeof value === "string" && value !== "" && value.length <= 256) return value;
  throw invalidInput(`\`${place}\` must be a string of 1 to 256 characters.`, "Send the call's.");
}

function contentOf(content: unknown, place: string): string | readonly Block[] {
  if (typeof content === "string") return content;
  if (!Array.isArray(content))
    throw invalidInput(`\`${place}\` must be a text or an array of parts.`, "Send one of them.");
  return content.flatMap((part: unknown): readonly Block[] => {
    if (!isObject(part)) return [];
    const { type, text, image_url, file_url, file_data, refusal } = part;
    if (typeof text === "string") return [{ type: "text", text }];
    if (type === "refusal" && typeof refusal === "string") return [{ type: "text", text: refusal }];
    if (type === "input_image" && typeof image_url === "string")
      return [mediaBlock(image_url, "image/png")];
    const file = typeof file_data === "string" ? file_data : file_url;
    return type === "input_file" && typeof file === "string" ? [mediaBlock(file)] : [];
  });
}

function outputText(output: unknown): string {
  if (typeof output === "string") return output;
  if (!Array.isArray(output)) return JSON.stringify(output ?? null);
  const texts = output.flatMap((part: unknown) =>
    isObject(part) && typeof part.text === "string" ? [part.text] : [],
  );
  return texts.length > 0 ? texts.join("") : JSON.stringify(output);
}

/** The function tools of a request; tools that only OpenAI can run are refused. */
export function toolsIn(tools: readonly Item[] = []): readonly OutsideTool[] {
  return tools.map(({ type, name, description, parameters }, index) => {
    if (type !== "function" || typeof name !== "string" || name === "")
      throw invalidInput(
        `\`tools[${index}]\` must be a function with a name.`,
        "The agent has tools of its own; send only functions that the client runs.",
      );
    return {
      name,
      ...(typeof description === "string" && { description }),
      ...(isObject(parameters) && { parameters }),
    };
  });
}

/** The JSON Schema of the answer, if the request asks for one. */
export function schemaIn(text: Item | undefined): object | undefined {
  const { format } = text ?? {};
  if (!isObject(format) || format.type === "text") return undefined;
  if (format.type === "json_schema" && isObject(format.schema)) return format.schema;
  throw invalidInput(
    '`text.format` must be `{ type: "text" }` or a json_schema.',
    "Send the schema of the answer.",
  );
}
