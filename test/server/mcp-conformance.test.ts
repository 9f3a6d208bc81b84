import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { isDeep } from "../../src/testing/deep.ts";
import { serveFixtures } from "./support/mcp-conformance-server.ts";

const folder = fileURLToPath(
  new URL("../../tools/mcp/node_modules/@modelcontextprotocol/conformance/", import.meta.url),
);
const clientScript = fileURLToPath(
  new URL("../support/mcp-conformance-client.ts", import.meta.url),
);
const expected = fileURLToPath(new URL("mcp-expected-failures.yml", import.meta.url));

/** The scenarios that a revision requires of servers or of clients. */
function requiredBy(revision: string, side: "server" | "client"): readonly string[] {
  const file = readFileSync(`${folder}requirements/${revision}.yaml`, "utf8");
  return (parse(file) as Record<typeof side, readonly string[]>)[side];
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

/** Checks what the suite prints: every required scenario ran, and those that failed are expected to. */
function check(output: string, required: readonly string[], place: string): void {
  const marks = new Map(
    [...output.matchAll(/^([✓✗]) ([\w/-]+): \d+ passed/gmu)].map(([, mark, name]) => [name, mark]),
  );
  expect(required.filter((name) => !marks.has(name))).toEqual([]);
  const [, unexpected = ""] = output.split("Unexpected failures (not in baseline):");
  const failures = [...unexpected.matchAll(/✗ (\S+)/gu)].map(([, name = ""]) => name);
  expect(failures.filter((name) => required.includes(name.split(":")[0] ?? ""))).toEqual([]);
  expect(output).not.toMatch(/stale/i); // a reason that no longer holds
  const failed = required.filter((name) => marks.get(name) === "✗");
  expect(failed.length).toBeLessThanOrEqual(required.length / 5);
  console.log(`${place}: ${required.length - failed.length} of ${required.length} required`);
}

it.each([
  ["2026-07-28", 37],
  ["2025-11-25", 30],
] as const)(
  "a server passes the required scenarios of %s, except for those that do not apply",
  { timeout: 120_000 },
  async (revision, count) => {
    const required = requiredBy(revision, "server");
    expect(required).toHaveLength(count);
    const serving = await serveFixtures();
    try {
      const output = await runSuite(
        ...["server", "--url", `${serving.url}/mcp`],
        ...["--requirements", revision, "--expected-failures", expected],
      );
      check(output, required, `server ${revision}`);
    } finally {
      await serving.close();
    }
  },
);

// The suite starts all clients at once.
const client = [
  "client",
  "--command",
  `${process.execPath} ${clientScript}`,
  "--timeout",
  "120000",
];

it.each([
  ["2026-07-28", 32],
  ["2025-11-25", 18],
] as const)(
  "the client passes the required scenarios of %s, except for those that do not apply",
  { timeout: 300_000 },
  async (revision, count) => {
    const required = requiredBy(revision, "client");
    expect(required).toHaveLength(count);
    if (!isDeep) {
      // The others run in the deep suite: each starts a process.
      const scenarios = ["tools_call", "auth/metadata-default"];
      for (const name of scenarios) {
        const run = ["--scenario", name, "--spec-version", revision];
        expect(await runSuite(...client, ...run)).toMatch(/OVERALL: PASSED/);
      }
      return;
    }
    const limits = ["--requirements", revision, "--expected-failures", expected];
    check(await runSuite(...client, ...limits), required, `client ${revision}`);
  },
);
