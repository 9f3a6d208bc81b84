import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";
import { gzipSync } from "node:zlib";
import type { InlineConfig } from "tsdown";
import { build } from "tsdown";
import { expect, it } from "vitest";
import type * as protocol from "../../src/protocol.ts";

const browser: InlineConfig = {
  config: false,
  platform: "browser",
  format: "iife",
  globalName: "bundled",
  dts: false,
  clean: false,
  write: false,
  logLevel: "silent",
};

async function bundle(entry: string, more: InlineConfig = {}) {
  const [built] = await build({ ...browser, ...more, entry: [entry] });
  const chunks = built?.chunks.filter((chunk) => chunk.type === "chunk") ?? [];
  return {
    code: chunks.map((chunk) => chunk.code).join("\n"),
    imports: chunks.flatMap((chunk) => [...chunk.imports, ...chunk.dynamicImports]),
  };
}

it("protocol bundles into one browser script without imports", async () => {
  const { code, imports } = await bundle("src/protocol.ts");
  expect(imports).toEqual([]);
  // The language itself, and the few globals that browsers share with Node.
  const globals = { crypto, TextEncoder, TextDecoder, setTimeout, clearTimeout };
  const bundled: typeof protocol = runInNewContext(`${code}; bundled`, { ...globals });
  const events = readFileSync("examples/recorded-run.jsonl", "utf8").trim().split("\n");
  const tree = bundled.reduce(
    bundled.emptyTree(),
    events.map((line) => JSON.parse(line)),
  );
  expect(bundled.rootTask(tree)?.status).toBe("completed");
  expect(bundled.encodeSse(JSON.parse(events[0] as string))).toContain("event: task.created");
});

it("detects an import", async () => {
  const { imports } = await bundle("src/cli/recording.ts");
  expect(imports).toEqual(["node:fs"]);
});

it.each([
  ["src/client.ts", 30_100, []],
  ["src/chat-transport.ts", 35_100, []],
  ["src/react.ts", 21_250, ["react"]],
])("%s bundles for browsers within %i bytes, gzipped", async (entry, most, external) => {
  const format = external.length > 0 ? "esm" : "iife";
  const { code, imports } = await bundle(entry, { minify: true, format });
  expect(imports).toEqual(external);
  const size = gzipSync(code).length;
  console.log(`${entry}: ${code.length} bytes, ${size} gzipped`);
  expect(size).toBeLessThanOrEqual(most);
});
