import { createHash } from "node:crypto";
import { notFound, RivuletError } from "../base/error.ts";
import { isObject } from "../base/plain.ts";
import { taskOf } from "../protocol/index.ts";
import { findTask } from "./found-task.ts";
import type { Call, Route } from "./route.ts";

/** The route of blobs: bytes that events name as `task://<task id>/blobs/<name>`. */
export const blobRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/tasks/:id/blobs/:name",
    needs: "read",
    summary: "Read a blob of a task.",
    returns: { status: 200, type: "application/octet-stream", description: "The bytes." },
    ids: { id: "task" },
    handle: showBlob,
  },
];

async function showBlob(call: Call): Promise<Response> {
  const { services, params } = call;
  const { record, root } = await findTask(call);
  const { name = "" } = params;
  const isName = /^sha256-[0-9a-f]{64}$/.test(name);
  const path = `blobs/${record.taskId}/${name}`;
  const file = isName ? await services.store.files.get(path) : undefined;
  if (file === undefined) throw notFound("task", `${record.taskId} with this blob`);
  const { tree } = await services.trees.read(root.taskId);
  const url = `task://${record.taskId}/blobs/${name}`;
  const named = findNamed(taskOf(tree, record.taskId)?.output, url);
  return bytesResponse(call, file.data, {
    tag: name,
    // A blob is named after its content, so it never changes.
    cache: "private, max-age=31536000, immutable",
    ...(typeof named?.mime_type === "string" && { type: named.mime_type }),
    ...(typeof named?.filename === "string" && { filename: named.filename }),
  });
}

/** The block that names a URL. */
function findNamed(root: unknown, url: string): Readonly<Record<string, unknown>> | undefined {
  const rest: unknown[] = [root];
  for (let value = rest.pop(); rest.length > 0 || value !== undefined; value = rest.pop()) {
    if (Array.isArray(value)) rest.push(...value);
    else if (isObject(value)) {
      const { image_url: image } = value;
      if (value.url === url || (isObject(image) && image.url === url)) return value;
      rest.push(...Object.values(value).filter((inner) => typeof inner === "object" && inner));
    }
  }
  return undefined;
}

/** The headers that describe the bytes of a response. */
export interface BytesOptions {
  readonly tag?: string;
  readonly type?: string;
  readonly filename?: string;
  readonly cache?: string;
}

/** Types that a browser shows without running anything. */
const shown = /^(image\/(png|jpeg|gif|webp|avif)|audio\/[\w.+-]+|video\/[\w.+-]+)$/;

/** Answers with bytes or a range of them. No page can run what an agent has written. */
export function bytesResponse(call: Call, data: Uint8Array, options: BytesOptions): Response {
  const { request, headers } = call;
  const { tag = createHash("sha256").update(data).digest("hex"), cache = "no-cache" } = options;
  const given = options.type?.toLowerCase() ?? "";
  const type = /^[\w.+-]+\/[\w.+-]+$/.test(given) ? given : "application/octet-stream";
  const filename = options.filename?.split("/").at(-1) ?? "";
  const name = filename === "" ? "" : `; filename*=UTF-8''${encodeName(filename)}`;
  const all = {
    ...headers,
    "content-type": type.startsWith("text/") ? `${type}; charset=utf-8` : type,
    "content-disposition": `${shown.test(type) ? "inline" : "attachment"}${name}`,
    "content-security-policy": "default-src 'none'; sandbox",
    "accept-ranges": "bytes",
    "cache-control": cache,
    etag: `"${tag}"`,
  };
  if (request.headers.get("if-none-match") === all.etag)
    return new Response(null, { status: 304, headers: all });
  const condition = request.headers.get("if-range");
  const isFresh = condition === null || condition === all.etag;
  const range = isFresh ? rangeOf(request.headers.get("range"), data.length) : undefined;
  if (range === undefined) return new Response(data as Uint8Array<ArrayBuffer>, { headers: all });
  const [first, last] = range;
  const partial = { ...all, "content-range": `bytes ${first}-${last}/${data.length}` };
  const part = data.subarray(first, last + 1) as Uint8Array<ArrayBuffer>;
  return new Response(part, { status: 206, headers: partial });
}

function encodeName(name: string): string {
  return encodeURIComponent(name.toWellFormed().slice(0, 200)).replace(
    /['()*!]/g,
    (one) => `%${one.charCodeAt(0).toString(16)}`,
  );
}

/** The first and the last byte of a range; undefined for the whole. */
function rangeOf(header: string | null, size: number): readonly [number, number] | undefined {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? "");
  const [, from = "", to = ""] = match ?? [];
  // Several ranges and other units may be ignored.
  if (match === null || (from === "" && to === "")) return undefined;
  const first = from === "" ? Math.max(0, size - Number(to)) : Number(from);
  const last = from === "" || to === "" ? size - 1 : Math.min(Number(to), size - 1);
  if (first <= last && first < size) return [first, last];
  throw new RivuletError("range_not_satisfiable", `The range is outside of ${size} bytes.`, {
    hint: "Leave the range out to get all bytes.",
  });
}
