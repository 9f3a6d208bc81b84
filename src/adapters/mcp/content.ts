import type { ContentBlock } from "@modelcontextprotocol/server";
import type { Block, MediaBlock } from "../../contract/index.ts";

/** The blocks of a message or a result as MCP has them; `addressOf` gives the public address of a stored file. */
export function contentOf(
  blocks: readonly Block[],
  addressOf: (url: string) => string,
): ContentBlock[] {
  return blocks.flatMap((block, index): readonly ContentBlock[] => {
    if (block.type === "text") return block.text === "" ? [] : [{ type: "text", text: block.text }];
    return "source" in block ? [mediaOf(block, index, addressOf)] : [];
  });
}

function mediaOf(
  { type, source }: MediaBlock,
  index: number,
  addressOf: (url: string) => string,
): ContentBlock {
  const read = "url" in source ? dataIn(source.url) : source;
  if (read === undefined) {
    const { url, mimeType } = source as { readonly url: string; readonly mimeType?: string };
    const link = { type: "resource_link", uri: addressOf(url), name: type } as const;
    return mimeType === undefined ? link : { ...link, mimeType };
  }
  const { data, mimeType } = read;
  if (type === "image" || type === "audio") return { type, data, mimeType };
  const uri = `rivulet://attachments/${index + 1}`;
  if (!mimeType.startsWith("text/"))
    return { type: "resource", resource: { uri, mimeType, blob: data } };
  const text = Buffer.from(data, "base64").toString();
  return { type: "resource", resource: { uri, mimeType, text } };
}

function dataIn(url: string): { readonly data: string; readonly mimeType: string } | undefined {
  const [, mimeType, data] = /^data:([^;,]+)[^,]*;base64,(.*)$/s.exec(url) ?? [];
  return mimeType === undefined || data === undefined ? undefined : { mimeType, data };
}
