/** The address of an image or a file that a block names; undefined if the page must not load it. */
export function urlOf(url: string): string | undefined {
  const blob = /^task:\/\/([^/]+)\/blobs\/([^/]+)$/.exec(url);
  if (blob)
    return `v1/tasks/${encodeURIComponent(blob[1] ?? "")}/blobs/${encodeURIComponent(blob[2] ?? "")}`;
  if (/^data:image\/(png|jpeg|gif|webp|avif);base64,/.test(url) || url.startsWith("blob:"))
    return url;
  const isOwn = URL.canParse(url) && new URL(url).origin === globalThis.location?.origin;
  return isOwn ? url : undefined;
}
