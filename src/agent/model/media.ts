import type {
  LanguageModelV2Prompt,
  LanguageModelV3Prompt,
  LanguageModelV3ToolResultOutput,
  LanguageModelV4FilePart,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultOutput,
} from "@ai-sdk/provider";
import type { MediaBlock } from "../../protocol/message.ts";
import type { LanguageModel } from "./resolve.ts";

/** Which version of the AI SDK's interface a model speaks. */
export type Version = LanguageModel["specificationVersion"];

type UserPart = Extract<
  (LanguageModelV2Prompt | LanguageModelV3Prompt | LanguageModelV4Prompt)[number],
  { role: "user" }
>["content"][number];
type OutputPart =
  | Extract<LanguageModelV4ToolResultOutput, { type: "content" }>["value"][number]
  | Extract<LanguageModelV3ToolResultOutput, { type: "content" }>["value"][number]
  | { readonly type: "media"; readonly data: string; readonly mediaType: string };

/** Where a medium's bytes are: here in base64, or at an address that the provider fetches. */
type Place = { readonly data: string } | { readonly url: URL };

/** A medium as a part of a message; one that has no usable address becomes a line of text. */
export function filePart(block: MediaBlock, version: Version): UserPart {
  const { place, mediaType } = placeOf(block);
  if (place === undefined) return textInstead(block);
  if (version === "v4") return fileOf(place, mediaType);
  return { type: "file", mediaType, data: "url" in place ? place.url : place.data };
}

/** A medium as a part of a tool's output; one that the version has no way to send becomes a line of text. */
export function outputPart(block: MediaBlock, version: Version): OutputPart {
  const { place, mediaType } = placeOf(block);
  if (place === undefined) return textInstead(block);
  if (version === "v4") return fileOf(place, mediaType);
  if (version === "v3") {
    const image = block.type === "image";
    return "url" in place
      ? { type: image ? "image-url" : "file-url", url: place.url.href }
      : { type: image ? "image-data" : "file-data", data: place.data, mediaType };
  }
  return "url" in place ? textInstead(block) : { type: "media", data: place.data, mediaType };
}

/** The block that a file of a model's stream makes, whichever version it came in. */
export function mediaBlock(file: { mediaType: string; data: unknown }): MediaBlock {
  const type = /^(image|audio|video)\//.exec(file.mediaType)?.[1] ?? "file";
  return { type: type as MediaBlock["type"], source: sourceOf(file.data, file.mediaType) };
}

function sourceOf(data: unknown, mimeType: string): MediaBlock["source"] {
  if (typeof data === "string") return { data, mimeType };
  if (data instanceof Uint8Array) return { data: Buffer.from(data).toString("base64"), mimeType };
  const tagged = data as { type: string; data?: unknown; url?: URL };
  if (tagged.type === "url") return { url: String(tagged.url), mimeType };
  return sourceOf(tagged.data, mimeType);
}

function placeOf(block: MediaBlock): { place: Place | undefined; mediaType: string } {
  const { source } = block;
  // Without a type the top half is all that is known, and "image/*" is a type that providers take.
  const mediaType =
    source.mimeType ?? (block.type === "file" ? "application/octet-stream" : `${block.type}/*`);
  if ("data" in source) return { place: { data: source.data }, mediaType };
  const inline = /^data:([^;,]*);base64,(.*)$/s.exec(source.url);
  if (inline !== null) {
    return { place: { data: inline[2] as string }, mediaType: inline[1] || mediaType };
  }
  const url = URL.parse(source.url);
  return { place: url === null ? undefined : { url }, mediaType };
}

function fileOf(place: Place, mediaType: string): LanguageModelV4FilePart {
  return {
    type: "file",
    mediaType,
    data: "url" in place ? { type: "url", url: place.url } : { type: "data", data: place.data },
  };
}

function textInstead({ type, source }: MediaBlock): LanguageModelV4TextPart {
  return { type: "text", text: `[${type}: ${"url" in source ? source.url : source.mimeType}]` };
}
