import { RivuletError } from "../base/error.ts";
import type { MediaBlock } from "../contract/index.ts";

const kinds = ["image", "audio", "video"] as const;

/** The block of a file in a request: a data URL or a web address. */
export function mediaBlock(url: string, mediaType = ""): MediaBlock {
  const data = /^data:([^;,]*)[^,]*;base64,(.*)$/s.exec(url);
  const mimeType = data?.[1] || mediaType;
  const type = kinds.find((kind) => mimeType.startsWith(`${kind}/`)) ?? "file";
  if (data)
    return {
      type,
      source: { data: data[2] ?? "", mimeType: mimeType || "application/octet-stream" },
    };
  if (!/^https?:/.test(url))
    throw new RivuletError(
      "invalid_input",
      "The url of a file is neither a data URL nor a web address.",
      {
        hint: "Send `data:…;base64,…`, or an address that starts with https:.",
      },
    );
  return { type, source: { url, ...(mimeType !== "" && { mimeType }) } };
}

/** The address under which a client of this server loads a file that an event names. */
export function publicAddress(base: string, url: string): string {
  const blob = /^task:\/\/([^/]+)\/blobs\/(.+)$/.exec(url);
  return blob ? `${base}/v1/tasks/${encodeURIComponent(blob[1] ?? "")}/blobs/${blob[2]}` : url;
}
