import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { invalid } from "../base/options.ts";
import type { Call, Route } from "./route.ts";

/** A file of the page, as it is sent. */
interface PageFile {
  readonly data: Uint8Array<ArrayBuffer>;
  readonly type: string;
  readonly tag: string;
  zipped?: Uint8Array<ArrayBuffer>;
}

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** The page runs only its own scripts and talks only to its own server; `inline` is the hash of its script in the HTML. */
const policyWith = (inline: string) =>
  [
    "default-src 'none'",
    `script-src 'self' 'sha256-${inline}'`,
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");

/** The paths of the page itself. Below a prefix `/` is the prefix, and the second one the prefix with a slash. */
const pagePaths = ["/", "/:end{$}"];

/** The routes of the page: `/` and the files beside it. They are public, because they contain no data. */
export function pageRoutes(isDemo = false, folder = builtPage()): readonly Route[] {
  const files = readFiles(folder, isDemo);
  const policy = policyWith(inlineHash(files.get("/index.html")));
  // Only files that exist have a route, so no path leads out of the folder.
  return [...files].flatMap(([name, file]) =>
    (name === "/index.html" ? pagePaths : [name]).map(
      (path): Route => ({
        method: "GET",
        path,
        needs: "nothing",
        summary: "Read a file of the page.",
        returns: { status: 200, type: file.type, description: "The file." },
        handle: (call) => showFile(call, file, policy, name.startsWith("/assets/")),
      }),
    ),
  );
}

/** The hash of the script in the HTML, as a policy names it. */
function inlineHash(page: PageFile | undefined): string {
  const [, script = ""] =
    /<script>(.*?)<\/script>/s.exec(Buffer.from(page?.data ?? []).toString()) ?? [];
  return createHash("sha256").update(script).digest("base64");
}

/** The names of assets contain a hash of their content, so an asset never changes. */
function showFile(call: Call, file: PageFile, policy: string, isAsset: boolean): Response {
  const headers: Record<string, string> = {
    ...call.headers,
    "content-type": file.type,
    "content-security-policy": policy,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
    etag: file.tag,
    vary: "accept-encoding",
    "cache-control": isAsset ? "public, max-age=31536000, immutable" : "no-cache",
  };
  if (call.request.headers.get("if-none-match") === file.tag)
    return new Response(null, { status: 304, headers });
  if (!/\bgzip\b/.test(call.request.headers.get("accept-encoding") ?? ""))
    return new Response(file.data, { headers });
  file.zipped ??= gzipSync(file.data, { level: 9 });
  return new Response(file.zipped, { headers: { ...headers, "content-encoding": "gzip" } });
}

function readFiles(folder: string, isDemo: boolean): ReadonlyMap<string, PageFile> {
  if (!existsSync(join(folder, "index.html")))
    throw invalid(
      "`page` is true, but the page is not built.",
      "Run `npm run build`, or leave `page` out.",
    );
  const files = new Map<string, PageFile>();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const type = types[extname(entry.name)];
    if (!entry.isFile() || type === undefined) continue;
    const path = join(entry.parentPath, entry.name);
    const isRoot = isDemo && entry.name === "index.html";
    // The page shows the button that ends the process.
    const data = isRoot
      ? Buffer.from(readFileSync(path, "utf8").replace("<html", "<html data-demo"))
      : readFileSync(path);
    const tag = `"${createHash("sha256").update(data).digest("base64url").slice(0, 22)}"`;
    const name = path.slice(folder.length).replaceAll("\\", "/").replace(/^\/*/, "/");
    files.set(name, { data: new Uint8Array(data), type, tag });
  }
  return files;
}

/** The page in this package, whether this file runs from `src` or from `dist`. */
function builtPage(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json")) && folder !== dirname(folder))
    folder = dirname(folder);
  return join(folder, "dist", "playground");
}
