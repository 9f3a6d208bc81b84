import { jsonOf, placeholders } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import { isObject } from "../base/plain.ts";
import type {
  Block,
  MediaBlock,
  MediaSource,
  ToolResultBlock,
  ToolResultState,
} from "../contract/index.ts";

/** A value that JSON can express. */
export type AiJson = null | string | number | boolean | AiJson[] | { [key: string]: AiJson };
/** Metadata of a part for its provider. */
export type AiOptions = Record<string, { [key: string]: AiJson }>;
/** The data of a file: base64 or a URL. */
export type AiFileData = { type: "data"; data: string } | { type: "url"; url: URL };
/** A file. */
export interface AiFile {
  type: "file";
  data: AiFileData;
  mediaType: string;
}
/** A text or a file. */
export type AiContent = { type: "text"; text: string } | AiFile;
/** The result of a tool call for a model. */
export type AiOutput =
  | { type: "text" | "error-text"; value: string }
  | { type: "json"; value: AiJson }
  | { type: "execution-denied"; reason?: string }
  | { type: "content"; value: AiContent[] };

/** The blocks of an output and how its call ended. */
export function readOutput(
  output: unknown,
  place: string,
): Pick<ToolResultBlock, "output" | "state"> {
  const { type, value, reason } = isObject(output) ? output : {};
  if (type === "text" || type === "error-text") {
    return { output: textBlocks(String(value)), state: type === "text" ? "success" : "error" };
  }
  if (type === "json" || type === "error-json") {
    return { output: textBlocks(jsonOf(value)), state: type === "json" ? "success" : "error" };
  }
  if (type === "execution-denied") {
    return { output: textBlocks(typeof reason === "string" ? reason : ""), state: "denied" };
  }
  if (type !== "content" || !Array.isArray(value)) throw unsupported(`${place}.output`, type);
  const blocks = value.map((part, at) => readContent(part, `${place}.output.value[${at}]`));
  return { output: blocks, state: "success" };
}

/** The output for a result; text that is the JSON of an object or an array becomes that value. */
export function outputOf(output: readonly Block[], state: ToolResultState): AiOutput {
  const text = output.flatMap((block) => ("text" in block ? [block.text] : [])).join("\n");
  if (state === "denied") return { type: "execution-denied", ...(text !== "" && { reason: text }) };
  if (state !== "success") return { type: "error-text", value: text };
  const hasMedia = output.some((block) => "source" in block);
  if (!hasMedia && output.length <= 1) {
    const value = parsedJson(text);
    return value === undefined ? { type: "text", value: text } : { type: "json", value };
  }
  return { type: "content", value: output.flatMap(contentOf) };
}

/** The text or the file of a block that a person or a tool wrote. */
export function contentOf(block: Block): AiContent[] {
  if ("source" in block) return [fileOf(block)];
  const isText = block.type === "text" || block.type === "hint";
  return isText ? [{ type: "text", text: block.text }] : [];
}

/** The value of a text that is exactly how JSON writes an object or an array, so that nothing is lost. */
function parsedJson(text: string): AiJson | undefined {
  if (!/^[[{]/.test(text)) return undefined;
  try {
    const value = JSON.parse(text) as AiJson;
    return JSON.stringify(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

function textBlocks(text: string): readonly Block[] {
  return text === "" ? [] : [{ type: "text", text }];
}

/** A text or a file in any of the forms that the AI SDK accepts. */
export function readContent(part: unknown, place: string): Block {
  if (!isObject(part)) throw unsupported(place, part);
  const { type, mediaType, data, url, image } = part;
  switch (type) {
    case "text":
      return { type, text: String(part.text) };
    case "image":
      return mediaBlock(image, mediaType ?? "image/*", place);
    case "image-data":
    case "image-url":
      return mediaBlock(data ?? url, mediaType ?? "image/*", place);
    case "file":
    case "file-data":
    case "file-url":
      return mediaBlock(data ?? url, mediaType ?? "application/octet-stream", place);
    default:
      throw unsupported(place, type);
  }
}

function mediaBlock(data: unknown, mediaType: unknown, place: string): MediaBlock {
  const mimeType = String(mediaType);
  const kind = mimeType.split("/", 1)[0] as MediaBlock["type"];
  const type = ["image", "audio", "video"].includes(kind) ? kind : "file";
  return { type, source: sourceOf(data, mimeType, place) };
}

function sourceOf(data: unknown, mimeType: string, place: string): MediaSource {
  if (data instanceof URL) return sourceOf(data.href, mimeType, place);
  if (data instanceof Uint8Array || data instanceof ArrayBuffer) {
    return { data: Buffer.from(data as Uint8Array).toString("base64"), mimeType };
  }
  if (isObject(data) && data.type === "data") return sourceOf(data.data, mimeType, place);
  if (isObject(data) && data.type === "url") return sourceOf(data.url, mimeType, place);
  if (isObject(data) && data.type === "text") {
    return { data: Buffer.from(String(data.text)).toString("base64"), mimeType };
  }
  if (typeof data !== "string") throw unsupported(place, "a reference to a provider's file");
  const inline = /^data:([^;,]*);base64,(.*)$/s.exec(data);
  if (inline) return { data: inline[2] as string, mimeType: inline[1] || mimeType };
  if (!/^[a-z][a-z0-9+.-]*:/i.test(data)) return { data, mimeType };
  return mimeType.endsWith("/*") ? { url: data } : { url: data, mimeType };
}

/** The file of a media block, or text if its URL is invalid; a URL without a type gets the type of its block. */
export function fileOf({ type, source }: MediaBlock): AiContent {
  const mediaType = source.mimeType ?? (type === "file" ? "application/octet-stream" : `${type}/*`);
  if ("data" in source) {
    return { type: "file", mediaType, data: { type: "data", data: source.data } };
  }
  const inline = sourceOf(source.url, mediaType, "source");
  if ("data" in inline && URL.canParse(source.url)) return fileOf({ type, source: inline });
  const url = URL.parse(source.url);
  if (url === null) return { type: "text", text: placeholders.media(type, source.url) };
  return { type: "file", mediaType, data: { type: "url", url } };
}

/** The provider's metadata of a block, which we keep as its signature. */
export function optionsOf({ signature }: { readonly signature?: string }): AiOptions | undefined {
  try {
    const options: unknown = signature === undefined ? undefined : JSON.parse(signature);
    return isObject(options) ? (options as AiOptions) : undefined;
  } catch {
    return undefined; // a signature of another origin
  }
}

/** The signature for the provider's metadata of a part. */
export function signatureOf(options: unknown): { readonly signature?: string } {
  return isObject(options) ? { signature: JSON.stringify(options) } : {};
}

/** The error for a part that a transcript cannot hold. */
export function unsupported(place: string, type: unknown): RivuletError {
  const message = `\`${place}\` cannot be converted: ${typeof type === "string" ? type : JSON.stringify(type)}.`;
  const hint = "Pass messages of the AI SDK with text, files, reasoning, tool calls and results.";
  return new RivuletError("invalid_input", message, { hint });
}
