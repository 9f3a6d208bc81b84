// An error shows the line that made the call, also when the work failed long after the call returned.
import { describe, expect, it } from "vitest";
import { connect } from "../../src/client.ts";
import { HarnessAgent, ReActAgent, type SubagentDeclaration } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { hastyClock } from "../client/support/serving.ts";
import { collect } from "./support/collect.ts";

function failing(): ReActAgent {
  const model = scriptedModel([{ error: new Error("boom") }]);
  return new ReActAgent({ name: "lead", model, modelExecution: { maxAttempts: 1 } });
}

const nowhere = () =>
  connect("http://server.invalid", {
    clock: hastyClock,
    fetch: () => Promise.reject(new Error("down")),
  });
const headers = { "x-level": 1 } as unknown as Record<string, string>;
const nested = (depth: number): SubagentDeclaration => ({
  name: "worker",
  description: depth === 0 ? "" : "Works.",
  subagents: depth === 0 ? [] : [nested(depth - 1)],
});

describe("the stack of an error has the caller's line", () => {
  const callers: Readonly<Record<string, () => unknown>> = {
    "of call()": async function theCaller() {
      await failing().call("Go.");
    },
    "of stream()": async function theCaller() {
      await collect(failing().stream("Go."));
    },
    "of run()": async function theCaller() {
      await collect(failing().run("Go."));
    },
    "of run().result()": async function theCaller() {
      await failing().run("Go.").result();
    },
    "of attach()": async function theCaller() {
      await failing().attach({ taskId: "task_none" }).result();
    },
    "of a remote call()": async function theCaller() {
      await nowhere().agent("lead").run("Go.").result();
    },
    "of a remote attach()": async function theCaller() {
      await collect(nowhere().agent("lead").attach({ taskId: "task_none" }));
    },
    "for an option inside options": function theCaller() {
      new HarnessAgent({ name: "lead", model: "demo:analyst", modelOptions: { headers } });
    },
    "for a deeply nested declaration": function theCaller() {
      new HarnessAgent({ name: "lead", model: "demo:analyst", subagents: [nested(6)] });
    },
  };

  it.each(Object.entries(callers))("%s", async (_, call) => {
    const error = await (async () => call())().catch((thrown) => thrown);
    const stack = expect.stringMatching(/\btheCaller .*stacks\.test\.ts/);
    expect(error).toMatchObject({ name: "RivuletError", stack });
  });
});
