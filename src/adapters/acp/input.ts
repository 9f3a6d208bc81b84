import type { ContentBlock } from "@agentclientprotocol/sdk";
import type { Block } from "../../contract/index.ts";
import { mediaBlock } from "../foreign-media.ts";

/** The blocks of a prompt. A link stays a link, which an agent can read if its tools reach it. */
export function blocksOf(prompt: readonly ContentBlock[]): readonly Block[] {
  return prompt.map(blockOf);
}

function blockOf(block: ContentBlock): Block {
  switch (block.type) {
    case "text":
      return { type: "text", text: block.text };
    case "image":
    case "audio":
      return mediaBlock(`data:${block.mimeType};base64,${block.data}`);
    case "resource_link":
      return { type: "text", text: `[${block.name}](${block.uri})` };
    case "resource": {
      const { resource } = block;
      if ("text" in resource) return { type: "text", text: fileText(resource.uri, resource.text) };
      const mimeType = resource.mimeType ?? "application/octet-stream";
      return mediaBlock(`data:${mimeType};base64,${resource.blob}`);
    }
  }
}

/** A file whose text the editor has sent with the prompt. */
function fileText(uri: string, text: string): string {
  return `<file uri=${JSON.stringify(uri)}>\n${text}\n</file>`;
}
