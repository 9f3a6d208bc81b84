import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { buildPage } from "../../scripts/build-page.ts";
import { connect } from "../../src/client.ts";
import type { TaskEvent } from "../../src/protocol/event.ts";
import { rootTask } from "../../src/protocol/select.ts";
import { checkStream, emptyTree, reduce } from "../../src/protocol.ts";
import { collect } from "../agent/support/collect.ts";
import { scriptedTeam, serving } from "./support/program.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-serve-"));
beforeAll(() => buildPage());
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function isServing(url: string): Promise<boolean> {
  return fetch(`${url}/healthz`).then(
    ({ ok }) => ok,
    () => false,
  );
}

it("every agent of the demo goes on where it was after the server is killed in mid-sentence", async () => {
  const { child, url, token, ended, prints } = await serving(directory, ["--demo"]);
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
  const { child, url, ended } = await serving(directory, ["--demo"]);
  expect(await isServing(url)).toBe(true);
  child.kill("SIGKILL");
  await ended;
  while (await isServing(url)) await new Promise((resolve) => setTimeout(resolve, 20));
});

it("serves a config with a token in the address, and only to callers who have it", async () => {
  const { child, url, token, ended } = await serving(directory, scriptedTeam);
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
