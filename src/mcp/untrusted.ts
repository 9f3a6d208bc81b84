import type { CallToolResult, ContentBlock, Resource, Tool } from "@modelcontextprotocol/client";
import { jsonSchema, placeholders, toolErrors } from "../agent/index.ts";
import { RivuletError, reasonOf } from "../base/error.ts";
import { isObject } from "../base/plain.ts";
import { hideSecrets, secretsIn, urlSecrets } from "../base/secrets.ts";
import { type Block, type StandardSchema, textOf } from "../contract/index.ts";
import type { McpServer } from "./connect.ts";

// A server is not trusted: everything that it sends is bounded here, before a model, a person or a log gets it.
const maxTools = 500;
const maxDescription = 4_000;
const maxSchema = 32_000;
const maxListed = 500_000; // characters of all descriptions and schemas
const maxDepth = 16;
const maxBlocks = 1_000;
const maxMedia = 20_000_000; // characters of base64 in one result
const maxError = 2_000;
const maxLabel = 500;

type Fields = Readonly<Record<string, unknown>>;

/** A tool of a server, within the limits. */
export interface ListedTool {
  /** Its name on the server. */
  readonly listed: string;
  readonly name: string;
  readonly description: string;
  /** The JSON Schema that the model sees. */
  readonly document: Fields;
  readonly isIdempotent: boolean;
  /** Whether the server says that the tool changes nothing. */
  readonly isReadOnly: boolean;
}

/** The tools of a server within the limits; `warn` gets what was cut or left out. */
export function readTools(
  server: McpServer,
  prefix: string,
  listed: readonly Tool[],
  warn: (problem: string) => void,
): readonly ListedTool[] {
  const names = new Set<string>();
  const tools: ListedTool[] = [];
  let size = 0;
  for (const { name, title, description, inputSchema, annotations } of listed.slice(0, maxTools)) {
    const text = description?.trim() || title?.trim() || `${name} of ${server.name}`;
    if (text.length > maxDescription) {
      warn(`the description of ${quoted(name)} is cut to ${maxDescription} characters`);
    }
    const schema = JSON.stringify(inputSchema);
    if (schema.length > maxSchema) {
      warn(`the input schema of ${quoted(name)} is ignored, because it is over ${maxSchema} long`);
    }
    const isIgnored = schema.length > maxSchema;
    const shown = cut(text, maxDescription);
    size += shown.length + (isIgnored ? 0 : schema.length);
    if (size > maxListed) break;
    tools.push({
      listed: name,
      name: nameFor(name, names, prefix),
      description: shown,
      document: isIgnored ? { type: "object" } : { ...inputSchema, type: "object" },
      isIdempotent: annotations?.idempotentHint === true || annotations?.readOnlyHint === true,
      isReadOnly: annotations?.readOnlyHint === true,
    });
  }
  const omitted = listed.length - tools.length;
  if (omitted > 0) warn(`${omitted} of its ${listed.length} tools are left out`);
  return tools;
}

/** Describes each tool that the server changed after it was listed before. */
export function changesOf(before: readonly ListedTool[], now: readonly ListedTool[]): string[] {
  const earlier = new Map(before.map((tool) => [tool.listed, tool]));
  return now.flatMap(({ listed, description, document }) => {
    const old = earlier.get(listed);
    if (old === undefined) return [];
    if (old.description !== description) {
      const [from, to] = [quoted(old.description), quoted(description)];
      return [`the description of ${quoted(listed)} has changed from ${from} to ${to}`];
    }
    const isSame = JSON.stringify(old.document) === JSON.stringify(document);
    return isSame ? [] : [`the input schema of ${quoted(listed)} has changed`];
  });
}

function quoted(text: string): string {
  return JSON.stringify(oneLine(text, 200));
}

function oneLine(text: string, length: number): string {
  return cut(text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim(), length);
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).toWellFormed()}…`;
}

function nameFor(listed: string, taken: Set<string>, prefix: string): string {
  const plain = `${prefix}${listed.slice(0, maxLabel)}`
    .replaceAll(/[^A-Za-z0-9_-]/g, "_")
    .replace(/^(?=[^A-Za-z_])/, "_");
  let name = plain.slice(0, 64);
  for (let n = 2; taken.has(name); n++) name = `${plain.slice(0, 60)}_${n}`;
  taken.add(name);
  return name;
}

/**
 * The model sees the whole schema of the server. Arguments are checked against a part of it, because patterns, references
 * and combinations can take exponential time; the server checks the rest.
 */
export function inputOf(document: Fields): StandardSchema<Fields> {
  const { "~standard": standard } = jsonSchema<Fields>(checkable(document, 0));
  const convert = () => document;
  const converters = { jsonSchema: { input: convert, output: convert } };
  return { "~standard": { ...standard, ...converters } };
}

const types = ["object", "array", "string", "number", "integer", "boolean", "null"];

/** The keywords of a schema whose check takes linear time. */
function checkable(schema: unknown, depth: number): Fields {
  if (!isObject(schema) || depth > maxDepth) return {};
  const { type, properties, items, required, enum: values } = schema;
  const isOf = (list: unknown, fits: (entry: unknown) => boolean) =>
    Array.isArray(list) && list.length > 0 && list.length <= maxBlocks && list.every(fits);
  const isType = (entry: unknown) => types.includes(entry as string);
  return {
    ...((isType(type) || isOf(type, isType)) && { type }),
    ...(isOf(required, (entry) => typeof entry === "string") && { required }),
    ...(isOf(values, (entry) => !(entry instanceof Object)) && { enum: values }),
    ...(isObject(properties) && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, value]) => [name, checkable(value, depth + 1)]),
      ),
    }),
    ...(isObject(items) && { items: checkable(items, depth + 1) }),
  };
}

/** The blocks for the model; throws the error of a failed call, so that it becomes an error result. */
export function blocksOf(server: McpServer, result: CallToolResult): readonly Block[] {
  const { content, structuredContent, isError } = result;
  let left = maxMedia;
  const blocks = content.slice(0, maxBlocks).map((entry) => {
    const block = blockOf(entry);
    if (!("source" in block)) return block;
    const { type, source } = block;
    left -= "data" in source ? source.data.length : 0;
    if (left >= 0) return block;
    return { type: "text", text: placeholders.media(type, "too large") } as const;
  });
  if (blocks.length === 0 && structuredContent !== undefined) {
    blocks.push({ type: "text", text: JSON.stringify(structuredContent) });
  }
  if (!isError) return blocks;
  const text = cut(hideSecrets(secretsOf(server), textOf(blocks)), maxError);
  throw new RivuletError("mcp_tool_error", text || toolErrors.silentMcpServer);
}

/** A question of a server for a person, within the limits. */
export interface Question {
  readonly message: string;
  /** The fields of the answer. */
  readonly form?: Form;
  /** The page on which a person answers. */
  readonly url?: string;
}
type Form = {
  readonly type: "object";
  readonly properties: Readonly<Record<string, Fields>>;
  readonly required?: readonly string[];
};

const maxMessage = 4_000;
const maxFields = 100;

/** The question in a request of a server; throws if it cannot be shown. */
export function questionOf(server: McpServer, params: unknown): Question {
  const { mode, message, url, requestedSchema } = isObject(params) ? params : {};
  const shown = cut(String(message ?? ""), maxMessage);
  if (mode === "url") {
    const address = typeof url === "string" && URL.canParse(url) ? new URL(url) : undefined;
    const isPage = address?.protocol === "https:" || address?.protocol === "http:";
    if (address && isPage && address.href.length <= maxError)
      return { message: shown, url: address.href };
    throw unusable(server, "a link that is no address of a page");
  }
  const { properties, required } = isObject(requestedSchema) ? requestedSchema : {};
  const fields = isObject(properties) ? Object.entries(properties) : [];
  const isLarge = fields.length > maxFields || JSON.stringify(fields).length > maxSchema;
  if (isLarge) throw unusable(server, "a form that is too large");
  const simple = fields.map(([name, field]) => {
    if (!isObject(field) || field.type === "object") throw unusable(server, "a form with objects");
    const { pattern: _, ...rest } = field; // a pattern can take exponential time
    return [name, rest] as const;
  });
  const names = Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
  return {
    message: shown,
    form: {
      type: "object",
      properties: Object.fromEntries(simple),
      ...(names.length > 0 && { required: names.slice(0, maxFields) }),
    },
  };
}

function unusable({ name }: McpServer, problem: string): RivuletError {
  return new RivuletError("mcp_tool_error", `The MCP server ${name} asks with ${problem}.`);
}

const maxResources = 200;

/** The list of a server's documents for the model. */
export function resourceLines(resources: readonly Resource[]): string {
  const lines = resources.slice(0, maxResources).map(({ uri, name, description = "" }) => {
    const about = description === "" ? "" : `: ${oneLine(description, maxLabel)}`;
    return `${cut(uri, maxError)} ${oneLine(name, maxLabel)}${about}`;
  });
  return lines.length === 0 ? "The server has no documents." : lines.join("\n");
}

function blockOf(content: ContentBlock): Block {
  switch (content.type) {
    case "text":
      return { type: "text", text: content.text };
    case "image":
    case "audio": {
      const { type, data, mimeType } = content;
      return { type, source: { data, mimeType: cut(mimeType, maxLabel) } };
    }
    case "resource": {
      const { resource } = content;
      if ("text" in resource) return { type: "text", text: resource.text };
      const mimeType = cut(resource.mimeType ?? "application/octet-stream", maxLabel);
      const type = mimeType.startsWith("image/") ? "image" : "file";
      return { type, source: { data: resource.blob, mimeType } };
    }
    default: {
      const label = oneLine(content.title ?? content.name, maxLabel);
      return { type: "text", text: `${label}: ${cut(content.uri, maxError)}` };
    }
  }
}

/** The progress of a call, within the limits. */
export function progressOf(report: {
  readonly progress: number;
  readonly total?: number | undefined;
  readonly message?: string | undefined;
}) {
  const { progress, total, message } = report;
  return {
    progress,
    ...(total !== undefined && { total }),
    ...(message !== undefined && { message: cut(message, maxLabel) }),
  };
}

/** The text of an error or of a server, on one line, without the secrets of the server's settings. */
export function safeText(server: McpServer, text: unknown): string {
  const shown = typeof text === "string" ? text : reasonOf(text);
  return oneLine(hideSecrets(secretsOf(server), shown), maxError);
}

/** The values of headers and variables, and the address after its host with every segment of its path. */
function secretsOf(server: McpServer): readonly string[] {
  if (!("url" in server)) return secretsIn(Object.values(server.env ?? {}));
  const segments = new URL(server.url).pathname.split("/");
  return secretsIn([
    ...Object.values(server.headers ?? {}),
    ...(server.oauth?.clientSecret === undefined ? [] : [server.oauth.clientSecret]),
    ...urlSecrets(String(server.url)),
    ...segments,
  ]);
}
