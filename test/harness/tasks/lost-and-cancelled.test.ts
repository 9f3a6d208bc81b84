import { describe, expect, it } from "vitest";
import type { Commit } from "../../../src/contract/store.ts";
import { HarnessAgent, type Store, tool } from "../../../src/index.ts";
import type { TaskStatus } from "../../../src/protocol/task.ts";
import { type ScriptedPart, type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";
import { expectLawful } from "../../agent/support/laws.ts";
import { expiringStore } from "../../agent/support/losing-store.ts";

const sessionId = "session";

/** A lead that waits for one worker with one tool. */
function castOn(store: Store, turns: readonly ScriptedTurn[] = [spawn(), "Good."]) {
  const ran: string[] = [];
  const make = (name: string) =>
    tool({
      name,
      description: `Does ${name}.`,
      needsApproval: name === "sign",
      execute(_, { callId, signal }) {
        ran.push(callId);
        if (name !== "hang") return `${name} is done`;
        return new Promise((_, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason as Error)),
        );
      },
    });
  const worker = new HarnessAgent({
    name: "worker",
    model: scriptedModel(({ prompt, assistantCount }) => {
      const [asked] = prompt.flatMap(({ role, content }) => (role === "user" ? content : []));
      const call = asked?.type === "text" ? asked.text : "";
      return assistantCount === 0 ? { call } : "Worked.";
    }),
    tools: ["hang", "sign", "note"].map(make),
    store,
    filesystem: false,
    subagents: false,
  });
  const lead = new HarnessAgent({
    name: "lead",
    model: scriptedModel(turns, { by: "prompt" }),
    store,
    filesystem: false,
    parallel: false,
    subagents: [{ name: "worker", description: "Works.", agent: worker }],
  });
  return { lead, ran };
}

function spawn(task = "hang", label?: string): ScriptedPart {
  const input = { agent_id: "worker", task, timeout_seconds: 600 };
  return { call: "agent_spawn", input: { ...input, ...(label !== undefined && { label }) } };
}

/** The store of a process that is killed right before or after a commit and gets no reply. */
function killedAt(store: Store, when: "after" | "next", isIt: (commit: Commit) => boolean) {
  const dead = Promise.withResolvers<void>();
  const never = new Promise<never>(() => {});
  let isDue = false;
  const killed: Store = {
    ...store,
    async commit(commit) {
      if (!isDue) {
        const written = await store.commit(commit);
        isDue = isIt(commit);
        if (!isDue || when === "next") return written;
      }
      dead.resolve();
      return never;
    },
  };
  return { store: killed, dead: dead.promise };
}

async function statusesIn(store: Store): Promise<readonly TaskStatus[]> {
  return (await store.tasks({ conversation: sessionId })).map(({ status }) => status);
}

async function rootIn(store: Store): Promise<string> {
  const [root] = await store.tasks({ sessionId });
  if (root === undefined) throw new Error("There is no root task.");
  return root.taskId;
}

const hasEvent = (type: string) => (commit: Commit) =>
  commit.events?.some((event) => event.type === type) ?? false;

describe("a process that is lost", () => {
  it("leaves a child that is cancelled with its parent, without an owner", async () => {
    const { store, expire } = expiringStore();
    const first = killedAt(
      store,
      "after",
      ({ tasks }) => tasks?.some(({ depth }) => depth === 1) ?? false,
    );
    void castOn(first.store).lead.run("Go.", { sessionId });
    await first.dead;
    expire();
    expect(await statusesIn(store)).toEqual(["in_progress", "in_progress"]);
    const stop = new AbortController();
    stop.abort(new Error("enough"));
    const { lead } = castOn(store);
    const reply = await lead.call(undefined, { sessionId, signal: stop.signal });
    expect(reply.generateReason).toBe("interrupted");
    expect(await statusesIn(store)).toEqual(["cancelled", "cancelled"]);
    await expectLawful(store, await rootIn(store));
  });

  it("does not lose a cancel that it had received", async () => {
    const { store, expire } = expiringStore();
    const first = killedAt(store, "after", hasEvent("task.cancelling"));
    const { lead, ran } = castOn(first.store);
    void lead.run("Go.", { sessionId });
    await expect.poll(() => ran.length).toBe(1);
    const taskId = await rootIn(store);
    const row = { kind: "cancel", sessionId, rootTaskId: taskId } as const;
    await store.post([{ id: `cancel:${taskId}`, ...row }]);
    await first.dead;
    expire();
    const reply = await castOn(store).lead.call(undefined, { sessionId });
    expect(reply.generateReason).toBe("interrupted");
    expect(await statusesIn(store)).toEqual(["cancelled", "cancelled"]);
    expect(await store.posts({ sessionId })).toEqual([]);
    await expectLawful(store, taskId);
  });

  it("does not lose a cancel of its own caller", async () => {
    const { store, expire } = expiringStore();
    const hasCancel = ({ posts = [] }: Commit) => posts.some(({ kind }) => kind === "cancel");
    const first = killedAt(store, "after", hasCancel);
    const { lead, ran } = castOn(first.store);
    const run = lead.run("Go.", { sessionId });
    await expect.poll(() => ran.length).toBe(1);
    const taskId = await rootIn(store);
    void run.cancel("enough").catch(() => {});
    await first.dead;
    expire();
    const reply = await castOn(store).lead.call(undefined, { sessionId });
    expect(reply.generateReason).toBe("interrupted");
    expect(await statusesIn(store)).toEqual(["cancelled", "cancelled"]);
    for (const { sessionId: id } of await store.tasks({ rootTaskId: taskId })) {
      expect(await store.posts({ sessionId: id })).toEqual([]);
    }
    await expectLawful(store, taskId);
  });

  it("may have run an approved call, which is not run again", async () => {
    const { store, expire } = expiringStore();
    const sign = [spawn("sign"), "Good."];
    const asked = await castOn(store, sign).lead.call("Go.", { sessionId });
    const answers = asked.approvals.map((one) => one.approve());
    const hasAnswer = ({ appends = [] }: Commit) =>
      appends.some(({ messages }) => messages.some(({ content }) => content[0]?.type === "answer"));
    const killed = killedAt(store, "next", hasAnswer);
    const first = castOn(killed.store, sign);
    void first.lead.run(answers, { sessionId });
    await killed.dead;
    expect(first.ran).toHaveLength(1);
    expire();
    const second = castOn(store, sign);
    expect((await second.lead.call(undefined, { sessionId })).text).toBe("Good.");
    expect(second.ran).toEqual([]);
    const [, child] = await store.tasks({ conversation: sessionId });
    const results = (await store.session(child?.sessionId ?? "")).flatMap(({ content }) =>
      content.flatMap((block) => (block.type === "tool_result" ? [block.state] : [])),
    );
    expect(results).toEqual(["interrupted"]);
    await expectLawful(store, await rootIn(store));
  });
});

it("finds a call's child again, even if its label was used since", async () => {
  const { store } = expiringStore();
  const turns: readonly ScriptedTurn[] = [
    [
      spawn("sign", "one"),
      { call: "agent_send", input: { label: "one", message: "note", timeout_seconds: 0 } },
    ],
    "Good.",
    "I have heard.",
  ];
  const { lead } = castOn(store, turns);
  const asked = await lead.call("Go.", { sessionId });
  expect(await statusesIn(store)).toEqual(["suspended", "suspended", "queued"]);
  const run = lead.run(
    asked.approvals.map((one) => one.approve()),
    { sessionId },
  );
  expect((await run.result()).text).toBe("Good.");
  await run.settled();
  expect(await statusesIn(store)).toEqual(["completed", "completed", "completed"]);
  await expectLawful(store, await rootIn(store));
});
