import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { buildPage } from "../../scripts/build-page.ts";
import { connect } from "../../src/client.ts";
import { serving } from "./support/program.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-poison-"));
beforeAll(() => buildPage());
const ends: (() => void)[] = [];
afterAll(() => {
  for (const end of ends) end();
  rmSync(directory, { recursive: true, force: true });
});

const config = resolve("test/cli/support/poison.config.ts");

it.concurrent.each([
  ["freezes", "freeze", /blocked for more than 0\.4 s/],
  ["aborts", "abort", /signal SIGABRT/],
  ["exits", "exit", /exit code 3/],
  ["fills the memory of", "fill", /heap out of memory/],
])(
  "a tool that %s every process ends its task as poison, and nothing else",
  async (_, name, trace) => {
    const variables = { NODE_OPTIONS: "--max-old-space-size=96" };
    const atEnd = (end: () => void) => void ends.push(end);
    const server = await serving(directory, ["--config", config], variables, atEnd);
    const worker = connect(server.url, { token: server.token }).agent("worker");
    const guilty = worker.run(name, { sessionId: "guilty" });
    const innocent = ["a", "b"].map((sessionId) => worker.run("walk", { sessionId }));
    const queued = worker.run("hello", { sessionId: "guilty" });
    await expect(guilty.result()).rejects.toMatchObject({
      code: "poison",
      message: `The task took down 5 processes in a row while it called ${name}.`,
    });
    for (const run of innocent) expect((await run.result()).text).toBe("Done.");
    expect((await queued.result()).text).toBe("Hello.");
    // The session takes new messages, and the count starts again.
    expect((await worker.call("hello", { sessionId: "guilty" })).text).toBe("Hello.");
    await server.prints(trace);
    server.child.kill("SIGTERM");
    expect(await server.ended).toBe(0);
  },
);
