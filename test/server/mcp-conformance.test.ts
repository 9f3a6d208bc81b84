import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { serveFixtures } from "./support/mcp-conformance-server.ts";

const folder = fileURLToPath(
  new URL("../../tools/mcp/node_modules/@modelcontextprotocol/conformance/", import.meta.url),
);
const expected = fileURLToPath(new URL("mcp-expected-failures.yml", import.meta.url));

/** The scenarios that a revision requires of servers. */
function requiredBy(revision: string): readonly string[] {
  const file = readFileSync(`${folder}requirements/${revision}.yaml`, "utf8");
  return (parse(file) as { readonly server: readonly string[] }).server;
}

/** Runs the suite; resolves to what it prints. */
async function runSuite(...args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [`${folder}dist/index.js`, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => {
      output += chunk;
    });
  await new Promise((resolve) => child.once("close", resolve));
  return output;
}

it.each([
  ["2026-07-28", 37],
  ["2025-11-25", 30],
] as const)(
  "passes the required scenarios of %s, except for those that do not apply",
  { timeout: 120_000 },
  async (revision, count) => {
    const required = requiredBy(revision);
    const serving = await serveFixtures();
    try {
      const output = await runSuite(
        ...["server", "--url", `${serving.url}/mcp`],
        ...["--requirements", revision, "--expected-failures", expected],
      );
      const marks = new Map(
        [...output.matchAll(/^([✓✗]) ([\w/-]+): \d+ passed/gmu)].map(([, mark, name]) => [
          name,
          mark,
        ]),
      );
      expect(required.filter((name) => !marks.has(name))).toEqual([]);
      const [, unexpected = ""] = output.split("Unexpected failures (not in baseline):");
      const failures = [...unexpected.matchAll(/✗ (\S+)/gu)].map(([, name = ""]) => name);
      expect(failures.filter((name) => required.includes(name.split(":")[0] ?? ""))).toEqual([]);
      expect(output).not.toMatch(/stale/i); // a reason that no longer holds
      const failed = required.filter((name) => marks.get(name) === "✗");
      expect(required).toHaveLength(count);
      expect(failed.length).toBeLessThanOrEqual(count / 5);
      console.log(`${revision}: ${count - failed.length} of ${count} required scenarios`);
    } finally {
      await serving.close();
    }
  },
);
