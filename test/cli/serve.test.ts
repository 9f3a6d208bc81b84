import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { buildPage } from "../../scripts/build-page.ts";
import { connect } from "../../src/client/index.ts";
import type { TaskEvent } from "../../src/protocol/event.ts";
import { checkStream, emptyTree, reduce } from "../../src/protocol/index.ts";
import { rootTask } from "../../src/protocol/select.ts";
import { collect } from "../agent/support/collect.ts";
import { scriptedTeam } from "./support/program.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-serve-"));
const children: ChildProcess[] = [];
beforeAll(() => buildPage());
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** A server that was started from the command line. */
async function start(...args: readonly string[]) {
  const { PATH = "", HOME = "", NODE_COMPILE_CACHE = "" } = process.env;
  const child = spawn(
    process.execPath,
    [resolve("src/cli/main.ts"), "serve", ...args, "--port", "0"],
    {
      cwd: mkdtempSync(join(directory, "s")),
      env: { PATH, HOME, NODE_COMPILE_CACHE },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  children.push(child);
  let output = "";
  let isOver = false;
  let changed = Promise.withResolvers<void>();
  const change = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      change();
    });
  const ended = new Promise<number | null>((end) => child.once("close", end));
  void ended.then(() => {
    isOver = true;
    change();
  });
  async function prints(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(output);
      if (found) return found;
      if (isOver) throw new Error(`The server ended without ${pattern}:\n${output}`);
      await changed.promise;
    }
  }
  const [, url = "", token = ""] = await prints(/(http:\/\/127\.0\.0\.1:\d+)\/#token=(\S+)/);
  return { child, url, token, ended, prints };
}

async function isServing(url: string): Promise<boolean> {
  return fetch(`${url}/healthz`).then(
    ({ ok }) => ok,
    () => false,
  );
}

it("every agent of the demo goes on where it was after the server is killed in mid-sentence", async () => {
  const { child, url, token, ended, prints } = await start("--demo");
  const run = connect(url, { token })
    .agent("lead")
    .run("Why do rivers meander? Publish a report.", { sessionId: "s" });
  const events: TaskEvent[] = [];
  let isKilled = false;
  for await (const event of run) {
    events.push(event);
    const isChildSpeaking = event.type === "task.text.delta" && "source" in event && event.source;
    if (isKilled || !isChildSpeaking) continue;
    isKilled = true;
    const headers = { authorization: `Bearer ${token}` };
    const { status } = await fetch(`${url}/v1/demo/kill`, { method: "POST", headers });
    expect(status).toBe(202);
  }
  expect(isKilled).toBe(true);
  await prints(/The server was killed and is back after \d+\.\d s\./);
  expect(rootTask(reduce(emptyTree(), events))?.status).toBe("suspended");
  const { approvals } = await run.result();
  const reply = await connect(url, { token })
    .agent("lead")
    .call(
      approvals.map((approval) => approval.deny("No.")),
      { sessionId: "s" },
    );
  expect(reply.text).toContain("Rivers meander because");
  expect(reply.text).toMatch(/\[\^\d+\]/);
  const log = await collect(run.events({ after: -1, until: "tree" }));
  expect(checkStream(log)).toEqual([]);
  // The reader saw each event once, over the kill.
  expect(log.slice(0, events.length)).toEqual(events);
  child.kill("SIGINT");
  expect(await ended).toBe(0);
  expect(await isServing(url)).toBe(false);
});

it("the server of the demo ends with its supervisor", async () => {
  const { child, url, ended } = await start("--demo");
  expect(await isServing(url)).toBe(true);
  child.kill("SIGKILL");
  await ended;
  while (await isServing(url)) await new Promise((resolve) => setTimeout(resolve, 20));
});

it("serves a config with a token in the address, and only to callers who have it", async () => {
  const { child, url, token, ended } = await start(...scriptedTeam);
  const agents = (headers: Record<string, string>) => fetch(`${url}/v1/agents`, { headers });
  expect((await agents({})).status).toBe(401);
  const allowed = await agents({ authorization: `Bearer ${token}` });
  expect(await allowed.json()).toMatchObject({ agents: [{ name: "lead" }] });
  const kill = await fetch(`${url}/v1/demo/kill`, {
    ...{ method: "POST", headers: { authorization: `Bearer ${token}` } },
  });
  expect(kill.status).toBe(404);
  const remote = connect(url, { token }).agent("lead");
  expect((await remote.call("hello")).text).toBe("You said 1 things.");
  child.kill("SIGTERM");
  expect(await ended).toBe(0);
});
