import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import {
  type AgentEvent,
  HarnessAgent,
  type HarnessAgentOptions,
  memoryStore,
  sqliteStore,
} from "../../../src/index.ts";
import { type Script, scriptedModel } from "../../../src/testing.ts";
import { toolNames, toolTexts } from "../agent/support/agent.ts";
import { processesWith } from "./support/processes.ts";
import { hasBubblewrap, workspaceDirectory } from "./support/sandbox.ts";

const jail = hasBubblewrap ? "bubblewrap" : "just-bash";
const run = (command: string, more: object = {}) => ({
  call: "execute",
  input: { command, ...more },
});

async function createAgent(script: Script, options: Partial<HarnessAgentOptions> = {}) {
  const model = scriptedModel(script);
  const agent = new HarnessAgent({
    name: "lead",
    model,
    store: memoryStore(),
    workspace: await workspaceDirectory(),
    filesystem: { sandbox: { jail } },
    ...options,
  });
  return { agent, model, results: () => toolTexts(model.calls.at(-1)) };
}

describe("execute", () => {
  it("returns the exit code, the directory and the output", async () => {
    const { agent, results } = await createAgent([
      [run("echo out; echo err >&2; exit 3")],
      [run("true")],
      "done",
    ]);
    await agent.call("go", { sessionId: "s" });
    expect(results()).toEqual([
      "exit_code: 3\ndirectory: /workspace\n\nout\nerr\n",
      "exit_code: 0\ndirectory: /workspace\n\n(no output)",
    ]);
  });

  it("keeps the working directory per session, also in another process", async () => {
    const store = memoryStore();
    const workspace = await workspaceDirectory();
    const first = await createAgent([[run("mkdir -p a/b; cd a/b")], [run("pwd")], "done"], {
      store,
      workspace,
    });
    await first.agent.call("go", { sessionId: "s" });
    expect(first.results().at(-1)).toContain("\n/workspace/a/b\n");
    const second = await createAgent([[run("pwd")], "done", [run("pwd")], "done"], {
      store,
      workspace,
    });
    await second.agent.call("go", { sessionId: "s" });
    expect(second.results().at(-1)).toContain("\n/workspace/a/b\n");
    await second.agent.call("go", { sessionId: "other" });
    expect(second.results()).toEqual(["exit_code: 0\ndirectory: /workspace\n\n/workspace\n"]);
  });

  it("says when the working directory is gone", async () => {
    const { agent, results } = await createAgent([
      [run("mkdir d; cd d")],
      [run("cd ..; rm -r d; cd /tmp")],
      [run("pwd")],
      "done",
    ]);
    await agent.call("go", { sessionId: "s" });
    expect(results().at(-1)).toMatch(/\/workspace\/d cannot be used any more.*\n\n\/workspace\n$/s);
  });

  it("inherits no environment", async () => {
    process.env.RIVULET_TEST_SECRET = "secret";
    const { agent, results } = await createAgent([[run("env")], "done"], {
      filesystem: { sandbox: { jail, env: { GREETING: "hello" } } },
    });
    await agent.call("go", { sessionId: "s" });
    delete process.env.RIVULET_TEST_SECRET;
    expect(results()[0]).toContain("GREETING=hello");
    expect(results()[0]).not.toContain("secret");
  });

  it.runIf(hasBubblewrap)("streams output while the command runs", async () => {
    const { agent } = await createAgent([[run("echo one; sleep 0.5; echo two; exit 4")], "done"]);
    const texts: string[] = [];
    for await (const event of agent.stream("go", { sessionId: "s" })) {
      if (event.type === "tool_result" && !event.last) texts.push(event.text);
    }
    expect(texts[0]).toBe("one\n");
    expect(texts.join("")).toBe("one\ntwo\n\n[exit code 4]");
  });

  it("reports a command that was stopped as an error", async () => {
    const { agent, results } = await createAgent([
      [run("sleep 30", { timeout_seconds: 1 })],
      "done",
    ]);
    await agent.call("go", { sessionId: "s" });
    expect(results()[0]).toMatch(/^stopped: the command was stopped because its time was over/);
  });

  it("ends the command when the task is cancelled", async () => {
    const { agent } = await createAgent([[run("sleep 71.25")], "done"]);
    const running = agent.run("go", { sessionId: "s" });
    if (hasBubblewrap) while (processesWith("sleep 71.25").length === 0) await sleep(10);
    await running.cancel("enough");
    expect((await running.result()).generateReason).toBe("interrupted");
    expect(processesWith("sleep 71.25")).toEqual([]);
  });

  it("is offered only where the files can execute", async () => {
    const { agent, model } = await createAgent(["done"], { filesystem: { sandbox: false } });
    await agent.call("go", { sessionId: "s" });
    expect(toolNames(model.calls[0])).not.toContain("execute");
    expect(toolNames(model.calls[0])).toContain("read_file");
  });

  it("asks a person for the commands that a rule names, and for nothing else", async () => {
    const permissions = {
      allow: [{ tool: "execute", command: "echo *" }],
      ask: [{ tool: "execute", command: "rm" }],
    };
    const { agent, results } = await createAgent(
      [[run("echo x > /dev/null; echo safe")], [run("echo a && rm -f b")], "done"],
      { permissions },
    );
    const reply = await agent.call("go", { sessionId: "s" });
    expect(reply.generateReason).toBe("approval_required");
    const [approval] = reply.approvals;
    expect(approval?.call.input).toMatchObject({ command: "echo a && rm -f b" });
    await agent.call(approval ? [approval.deny("no")] : [], { sessionId: "s" });
    expect(results()[0]).toContain("safe");
    expect(results()[1]).toContain("no");
  });
});

/** The id of the last background command that the model has started. */
function lastTask(prompt: unknown): string {
  const text = JSON.stringify(prompt);
  return (
    [...text.matchAll(/task_id: ([\w-]+)\\n(?:status: (?:running|queued))/g)].at(-1)?.[1] ?? ""
  );
}

describe.runIf(hasBubblewrap)("execute in the background", () => {
  it("streams as a child, and its output is read from an offset", async () => {
    let id = "";
    const { agent, results } = await createAgent([
      [run("echo first; sleep 0.3; echo second", { background: true })],
      ({ prompt }) => {
        id = lastTask(prompt);
        return [{ call: "task_output", input: { task_id: id, offset: 6, block: true } }];
      },
      () => [{ call: "task_output", input: { task_id: id } }],
      "done",
    ]);
    const events: AgentEvent[] = [];
    for await (const event of agent.stream("go", { sessionId: "s" })) events.push(event);
    const child = events.filter(({ source }) => source?.path === "s/execute");
    expect(child.some((event) => event.type === "tool_result" && event.text === "first\n")).toBe(
      true,
    );
    expect(child.at(-1)).toMatchObject({ type: "agent_result", status: "completed" });
    expect(results()[1]).toBe(`task_id: ${id}\nstatus: completed\nnext_offset: 13\n\nsecond\n`);
    expect(results()[2]).toContain("agent_id: execute");
    expect(results()[2]).toContain("exit_code: 0");
  });

  it("is ended by task_cancel, with all its processes", async () => {
    const { agent, results } = await createAgent([
      [run("sleep 72.25 & sleep 72.25", { background: true })],
      async ({ prompt }) => {
        while (processesWith("sleep 72.25").length === 0) await sleep(10);
        return [{ call: "task_cancel", input: { task_id: lastTask(prompt) } }];
      },
      "done",
    ]);
    await agent.call("go", { sessionId: "s" });
    expect(results()[1]).toContain("status: cancelled");
    while (processesWith("sleep 72.25").length > 0) await sleep(10);
  });

  it("gives the end of a long output to the parent, and all of it by offset", async () => {
    let id = "";
    const { agent, results } = await createAgent([
      [run("seq 1 20000", { background: true })],
      ({ prompt }) => {
        id = lastTask(prompt);
        return [{ call: "task_output", input: { task_id: id } }];
      },
      () => [{ call: "task_output", input: { task_id: id, offset: 0 } }],
      "done",
    ]);
    await agent.call("go", { sessionId: "s" });
    expect(results()[1]?.length).toBeLessThan(10_000);
    expect(results()[1]?.trimEnd().endsWith("20000")).toBe(true);
    expect(results()[2]).toContain("\n1\n2\n3\n");
    expect(results()[2]).toMatch(/more characters; continue with offset 40000\]$/);
  });

  it("refuses an offset for a task that is not a command", async () => {
    const { agent, results } = await createAgent(
      [
        [{ call: "agent_spawn", input: { agent_id: "helper", task: "x", timeout_seconds: 0 } }],
        ({ prompt }) => {
          const [, id] = /task_id: ([\w-]+)/.exec(JSON.stringify(prompt)) ?? [];
          return [{ call: "task_output", input: { task_id: id, offset: 0, block: true } }];
        },
        "done",
      ],
      { subagents: [{ name: "helper", description: "Helps.", model: scriptedModel(["ok"]) }] },
    );
    await agent.call("go", { sessionId: "s" });
    expect(results()[1]).toContain("is not a command");
  });

  it("fails after a crash of its process, which leaves nothing running", async () => {
    const workspace = await workspaceDirectory();
    const database = join(workspace, "../rivulet.db");
    const child = fork(join(import.meta.dirname, "support/background-process.ts"), [
      ...[workspace, database, "sleep 73.25 & sleep 73.25"],
    ]);
    await once(child, "message");
    // Besides the process itself, which has the command among its arguments.
    while (processesWith("sleep 73.25").length < 2) await sleep(10);
    child.kill("SIGKILL");
    await once(child, "exit");
    while (processesWith("sleep 73.25").length > 0) await sleep(10);
    const store = sqliteStore(database);
    const { agent } = await createAgent(["done"], { store, workspace, leaseMs: 1_000 });
    await agent.call("go on", { sessionId: "s" });
    let status = "";
    for (; status !== "failed"; await sleep(50)) {
      const [task] = await store.tasks({ parentSessionId: "s" });
      status = task?.status ?? "";
      if (status === "failed") expect(task?.error?.code).toBe("executor_lost");
    }
    await store.close();
  });
});
