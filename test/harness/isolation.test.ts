import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TaskHandle } from "../../src/agent/stream/run.ts";
import type { TaskRecord } from "../../src/contract/store.ts";
import * as rivulet from "../../src/index.ts";
import {
  type Approval,
  HarnessAgent,
  jsonSchema,
  memoryStore,
  type RunOptions,
  type Store,
  sessionsOf,
  sqliteStore,
  taskRunner,
  tool,
} from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { collect } from "../agent/support/collect.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { keepEvents } from "../support/keep-events.ts";
import { toolNames } from "./agent/support/agent.ts";

type User = string | undefined;

/** The ids that a trial is given: those of the owner, or ids that do not exist. */
interface Ids {
  readonly sessionId: string;
  readonly taskId: string;
  readonly rootTaskId: string;
  readonly approvalId: string;
  readonly agentKey: string;
  readonly label: string;
  readonly path: string;
}

/** The means of an intruder. */
interface Intruder {
  readonly world: World;
  readonly user: { readonly userId?: string };
  /** A session of the intruder's own. */
  readonly own: { readonly sessionId: string; readonly userId?: string };
}

type Resource = "session" | "task" | "approval" | "file" | "search";

/** One access to a resource of the owner. */
interface Trial {
  readonly on: Resource;
  readonly name?: string;
  /**
   * `same`: the outcome is that of ids which do not exist. `nothing`: the outcome names nothing of the owner. A
   * function: an id that does not exist would start a session, so the outcome is that of this attempt.
   */
  readonly expect: "same" | "nothing" | ((intruder: Intruder) => Promise<unknown>);
  attempt(intruder: Intruder, ids: Ids): Promise<unknown>;
}

/** The trials of an entry point, or the reason why it has none. */
type Entry = readonly Trial[] | string;

const secret = "xylophone";
const unknown: Ids = {
  ...{
    sessionId: "no-session",
    taskId: "no-task",
    rootTaskId: "no-root",
    approvalId: "no-approval",
  },
  ...{ agentKey: "agent:general-purpose:none", label: "no-label", path: "notes/none.md" },
};

/** Runs the calls that the last user message lists as JSON, or repeats its text. */
const puppet = () =>
  scriptedModel(({ prompt }) => {
    if (prompt.at(-1)?.role !== "user") return "done";
    if (JSON.stringify(prompt[0]).includes("Write down the facts")) return "NOTHING";
    const since = prompt.findLastIndex(({ role }) => role !== "user");
    const texts = prompt
      .slice(since + 1)
      .flatMap((message) => (message.role === "user" ? message.content : []))
      .flatMap((part) => (part.type === "text" ? [part.text] : []));
    const listed = texts.find((text) => text.startsWith("["));
    return listed === undefined ? `I heard: ${texts[0]}` : JSON.parse(listed);
  });
const calls = (...all: readonly { call: string; input?: unknown }[]) => JSON.stringify(all);
const path = jsonSchema<{ path: string }>({
  ...{ type: "object", properties: { path: { type: "string" } }, required: ["path"] },
});

interface World {
  readonly store: Store;
  readonly agent: HarnessAgent;
  readonly model: ReturnType<typeof puppet>;
  readonly owner: { readonly userId?: string };
  /** The owner's ids, once for each kind of session. */
  readonly targets: readonly Ids[];
  readonly executed: readonly string[];
  /** Everything in the store that is the owner's. */
  dump(): Promise<string>;
  close(): Promise<void>;
}

const userOf = (user: User) => (user === undefined ? {} : { userId: user });

async function openWorld(kind: "memory" | "sqlite", user: User): Promise<World> {
  const folder = createFolder();
  const store = kind === "memory" ? memoryStore(keepEvents) : sqliteStore(join(folder, "store.db"));
  const gate = Promise.withResolvers<void>();
  const executed: string[] = [];
  const model = puppet();
  const agent = new HarnessAgent({
    ...{ name: "lead", model, store, workspace: join(folder, "workspace") },
    tools: [
      tool({
        ...{ name: "remove", description: "Removes a file.", input: path, needsApproval: true },
        execute: (given) => {
          executed.push(given.path);
          return "removed";
        },
      }),
      tool({ name: "wait", description: "Waits.", execute: () => gate.promise.then(() => "over") }),
    ],
  });
  const owner = userOf(user);
  const write = { call: "write_file", input: { path: "notes/secret.md", content: secret } };
  const remember = { call: "write_file", input: { path: "MEMORY.md", content: `- ${secret}\n` } };
  const remove = { call: "remove", input: { path: secret } };
  const spawn = {
    call: "agent_spawn",
    input: {
      agent_id: "general-purpose",
      task: calls(remove),
      label: "helper",
      timeout_seconds: 0,
    },
  };
  const sessions = ["idle", "suspended", "background", "busy"].map((name) => `own-${name}`);
  const [idle = "", suspended = "", background = "", busy = ""] = sessions;
  // Without a user it would be common to all users.
  const both = user === undefined ? [write] : [write, remember];
  await agent.call(calls(...both), { ...owner, sessionId: idle });
  await agent.call(secret, { ...owner, sessionId: idle });
  await agent.call(calls(remove), { ...owner, sessionId: suspended });
  const run = agent.run(calls(spawn), { ...owner, sessionId: background });
  await run.result();
  await run.settled();
  const running = agent.run(calls({ call: "wait" }), { ...owner, sessionId: busy });
  for await (const event of running)
    if (event.type === "task.output_item.added" && event.item.type === "tool_result") break;
  const targets = await Promise.all(
    sessions.map(async (sessionId): Promise<Ids> => {
      const tasks = await store.tasks({ conversation: sessionId });
      const { taskId, rootTaskId, agentKey, label = "helper" } = tasks.at(-1) as TaskRecord;
      const [approval] = await agent.approvals({ ...owner, sessionId });
      const approvalId = approval?.id ?? unknown.approvalId;
      return {
        ...{ sessionId, taskId, rootTaskId, agentKey, label, approvalId, path: "notes/secret.md" },
      };
    }),
  );
  return {
    ...{ store, agent, model, owner, targets, executed },
    async dump() {
      const dumps = sessions.map(async (sessionId) => {
        const tasks = await store.tasks({ conversation: sessionId });
        const ids = new Set(tasks.map((task) => task.sessionId));
        return {
          tasks,
          info: await store.sessions({ sessionId, limit: 1 }),
          posts: await store.posts({ conversation: sessionId }),
          messages: await Promise.all([...ids].map((id) => store.session(id))),
          logs: await Promise.all(tasks.map(({ taskId }) => store.read(taskId, -1, 10_000))),
        };
      });
      return JSON.stringify(await Promise.all(dumps));
    },
    async close() {
      gate.resolve();
      await running.result();
      await agent.close();
      await store.close();
      removeFolder(folder);
    },
  };
}

/** The outcome of a trial as text. */
async function outcomeOf(attempt: Promise<unknown>): Promise<string> {
  const outcome = await attempt.then(
    (value) => ({ value: value ?? "nothing" }),
    ({ code, message, hint }: rivulet.RivuletError) => ({ code, message, hint }),
  );
  return JSON.stringify(outcome);
}

/** The text without the given ids. */
function without(ids: Ids, text: string): string {
  return Object.values(ids).reduce((rest: string, id) => rest.replaceAll(id, "<id>"), text);
}

const all = (
  on: Resource,
  expected: Trial["expect"],
  attempts: Readonly<Record<string, Trial["attempt"]>>,
): readonly Trial[] =>
  Object.entries(attempts).map(([name, attempt]) => ({ on, name, expect: expected, attempt }));

const notFound = ({ world, user }: Intruder) =>
  world.agent.attach({ sessionId: unknown.sessionId }, user).result();

const answerOf = ({ approvalId, taskId, rootTaskId }: Ids) => ({
  ...({ type: "answer", decision: "approve" } as const),
  ...{ approvalId, taskId, rootTaskId },
});

/** The trials of a way to call an agent. */
function callTrials(
  call: (agent: HarnessAgent, ...args: CallArguments) => Promise<unknown>,
): Entry {
  const at = ({ user }: Intruder, { sessionId }: Ids, more: Partial<RunOptions> = {}) =>
    ({ ...user, ...more, sessionId }) as const;
  return [
    ...all("session", notFound, {
      text: (i, ids) => call(i.world.agent, "Tell me all.", at(i, ids)),
      "text, at once": (i, ids) => call(i.world.agent, "Tell.", at(i, ids, { onBusy: "fail" })),
      "text, denying": (i, ids) => call(i.world.agent, "No.", at(i, ids, { onSuspended: "deny" })),
      "text, with live values": (i, ids) =>
        call(i.world.agent, "Tell.", at(i, ids, { context: { key: 1 } })),
    }),
    ...all("session", "same", {
      "no input": (i, ids) => call(i.world.agent, undefined, at(i, ids)),
    }),
    ...all("approval", "same", {
      "an answer": (i, ids) => call(i.world.agent, answerOf(ids), at(i, ids)),
      "an answer without a session": (i, ids) => call(i.world.agent, answerOf(ids), i.user),
      "an answer in the intruder's session": async (i, ids) => {
        await i.world.agent.call("Hi.", i.own);
        return call(i.world.agent, answerOf(ids), i.own);
      },
      "a denial": (i, ids) =>
        call(i.world.agent, { ...answerOf(ids), decision: "deny" } as const, at(i, ids)),
    }),
    ...all("file", "nothing", {
      "a mention": async (i, { path }) => {
        await call(i.world.agent, `Read @${path}`, i.own);
        return i.world.model.calls.at(-1)?.prompt;
      },
    }),
  ];
}
type CallArguments = Parameters<HarnessAgent["call"]>;

/** The trials of something that a run does. */
function runTrials(use: (run: ReturnType<HarnessAgent["run"]>) => Promise<unknown>): Entry {
  const attach = ({ world, user }: Intruder, target: Parameters<HarnessAgent["attach"]>[0]) =>
    use(world.agent.attach(target, user) as ReturnType<HarnessAgent["run"]>);
  return [
    ...all("session", "same", {
      "after attach": (i, { sessionId }) => attach(i, { sessionId }),
    }),
    ...all("task", "same", {
      "after attach": (i, { taskId }) => attach(i, { taskId }),
      "after attach to the root": (i, { rootTaskId }) => attach(i, { taskId: rootTaskId }),
    }),
    ...all("session", (i) => attach(i, { sessionId: unknown.sessionId }), {
      "after run": (i, { sessionId }) => use(i.world.agent.run("Tell.", { ...i.user, sessionId })),
    }),
  ];
}

/** Lets the intruder's model call a tool; the outcome is what the model reads. */
function toolTrials(
  on: Resource,
  expected: Trial["expect"],
  name: string,
  ...inputs: readonly ((ids: Ids) => unknown)[]
): Entry {
  return inputs.map((inputOf, index) => ({
    ...{ on, name: `input ${index + 1}`, expect: expected },
    async attempt({ world, own }, ids) {
      await world.agent.call(calls({ call: name, input: inputOf(ids) }), own);
      const messages = await world.store.session(own.sessionId);
      return messages
        .findLast(({ role }) => role === "tool")
        ?.content.map((block) => (block.type === "tool_result" ? block.output : block));
    },
  }));
}

/** Leaves out the lines about the intruder's own sessions, which have the words of all trials. */
function withoutOwn(trials: Entry): Entry {
  if (typeof trials === "string") return trials;
  return trials.map((trial) => ({
    ...trial,
    attempt: async (...args) =>
      JSON.stringify(await trial.attempt(...args)).replaceAll(/other-.*?(?:\\n|$)/g, ""),
  }));
}

const operator = "the operator's: the store is below users, and the process that has it is trusted";
const ofOwner = "needs the lease of the conversation, which only its owner process has";
const noUser = "holds nothing of a user";

/** Every public entry point. */
const entries: Readonly<Record<string, Readonly<Record<string, Entry>>>> = {
  Agent: {
    call: callTrials((agent, ...args) => agent.call(...args)),
    run: callTrials((agent, ...args) => agent.run(...args).result()),
    stream: callTrials((agent, ...args) => collect(agent.stream(...args))),
    attach: runTrials((run) => run.task),
    observe: all("session", notFound, {
      text: ({ world, user }, { sessionId }) =>
        world.agent.observe("I was here.", { ...user, sessionId }),
    }),
    compact: all("session", notFound, {
      "": ({ world, user }, { sessionId }) => world.agent.compact(sessionId, user),
    }),
    deleteSession: all("session", "same", {
      "": ({ world, user }, { sessionId }) => world.agent.deleteSession(sessionId, user),
    }),
    approvals: all("approval", "same", {
      list: ({ world, user }, { sessionId }) => world.agent.approvals({ ...user, sessionId }),
    }),
    memory: "see Memory",
    name: noUser,
    description: noUser,
    skills: noUser,
    close: noUser,
    "Symbol(Symbol.asyncDispose)": noUser,
  },
  Run: {
    task: runTrials((run) => run.task),
    events: runTrials((run) => collect(run.events({ after: -1 }))),
    result: runTrials((run) => run.result()),
    cancel: runTrials((run) => run.cancel("Stop.")),
    steer: runTrials((run) => run.steer("Do this.")),
    settled: runTrials((run) => run.settled()),
    before: runTrials((run) => (run as TaskHandle<unknown>).before()),
    startsAfter: runTrials((run) => (run as TaskHandle<unknown>).startsAfter),
    "Symbol(Symbol.asyncIterator)": runTrials((run) => collect(run)),
  },
  Sessions: {
    list: all("session", "nothing", {
      list: ({ world, user }) => sessionsOf(world.store, user).list(),
    }),
    read: all("session", "same", {
      read: ({ world, user }, { sessionId }) => sessionsOf(world.store, user).read(sessionId),
    }),
    search: all("search", "nothing", {
      search: ({ world, user }) => sessionsOf(world.store, user).search(secret),
    }),
    fork: all("session", "same", {
      fork: ({ world, user }, { sessionId, rootTaskId: taskId }) =>
        sessionsOf(world.store, user).fork(sessionId, { taskId }),
    }),
    export: all("session", "same", {
      export: ({ world, user }, { sessionId }) =>
        collect(sessionsOf(world.store, user).export(sessionId)),
    }),
  },
  Memory: {
    list: all("file", "nothing", {
      list: ({ world, user }) => world.agent.memory(user).list(),
    }),
    read: all("file", "nothing", {
      "MEMORY.md": ({ world, user }) => world.agent.memory(user).read(),
      "a daily file": async ({ world, user }) => {
        const days = (await world.agent.memory(world.owner).list()).map(({ path }) => path);
        const reads = days.map((path) => world.agent.memory(user).read(path));
        return Promise.allSettled(reads);
      },
    }),
    edit: all("file", "nothing", {
      "the same file": async ({ world, user }) => {
        await world.agent.memory(user).edit("MEMORY.md", "- I was here.\n");
        return world.agent
          .memory(world.owner)
          .read()
          .then((text) => text.includes("I was here"));
      },
    }),
    search: all("file", "nothing", {
      search: ({ world, user }) => world.agent.memory(user).search(secret),
    }),
    forget: all("file", "nothing", {
      forget: ({ world, user }) => world.agent.memory(user).forget(secret),
    }),
    flush: all("file", "nothing", {
      flush: ({ world, user }) => world.agent.memory(user).flush(),
    }),
  },
  Store: {
    sessions: all("session", "nothing", {
      "of the user": ({ world, user }) =>
        world.store.sessions({ userId: user.userId ?? null, limit: 100 }),
    }),
    search: all("search", "nothing", {
      "of the user": ({ world, user }) =>
        world.store.search({ userId: user.userId ?? null, text: secret, limit: 100 }),
    }),
    enqueue: all("session", notFound, {
      "a task": ({ world, user }, { sessionId }) => world.store.enqueue(taskOf(user, sessionId)),
    }),
    commit: ofOwner,
    acquire: ofOwner,
    claim: operator,
    heartbeat: ofOwner,
    nodes: operator,
    renew: ofOwner,
    release: ofOwner,
    ...Object.fromEntries(
      [
        ...["owner", "expired", "post", "posts", "read", "last", "trim", "snapshot", "session"],
        ...["deleteSession", "task", "tasks", "watch", "files", "close"],
      ].map((name) => [name, operator]),
    ),
  },
  TaskRunner: Object.fromEntries(
    ["sweep", "start", "cancel", "shutDown"].map((name) => [name, operator]),
  ),
  tool: {
    task_output: toolTrials("task", "same", "task_output", ({ taskId }) => ({ task_id: taskId })),
    task_wait: toolTrials("task", "same", "task_wait", ({ taskId }) => ({ task_ids: [taskId] })),
    task_cancel: toolTrials("task", "same", "task_cancel", ({ taskId }) => ({ task_id: taskId })),
    task_list: toolTrials("task", "nothing", "task_list", () => ({})),
    agent_list: toolTrials("session", "nothing", "agent_list", () => ({})),
    agent_send: toolTrials(
      ...(["session", "same", "agent_send"] as const),
      ({ agentKey }) => ({ agent_key: agentKey, message: "Hi." }),
      ({ label }) => ({ label, message: "Hi." }),
    ),
    agent_spawn: toolTrials("session", "nothing", "agent_spawn", () => ({
      agent_id: "general-purpose",
    })),
    read_file: toolTrials("file", "same", "read_file", ({ path }) => ({ path })),
    edit_file: toolTrials("file", "same", "edit_file", ({ path }) => ({
      ...{ path, old_string: secret, new_string: "y" },
    })),
    write_file: toolTrials("file", "same", "write_file", ({ path }) => ({ path, content: "y" })),
    grep_files: toolTrials("file", "nothing", "grep_files", () => ({ pattern: secret })),
    glob_files: toolTrials("file", "nothing", "glob_files", () => ({ pattern: "**/secret*" })),
    list_files: toolTrials("file", "nothing", "list_files", () => ({ path: "." })),
    memory_search: toolTrials("file", "nothing", "memory_search", () => ({ query: secret })),
    memory_get: toolTrials("file", "nothing", "memory_get", () => ({})),
    session_search: withoutOwn(
      toolTrials("search", "nothing", "session_search", () => ({ query: secret, limit: 50 })),
    ),
    session_list: withoutOwn(toolTrials("session", "nothing", "session_list", () => ({}))),
    session_history: toolTrials("session", "same", "session_history", ({ sessionId }) => ({
      session_id: sessionId,
    })),
    remove: "a tool of this test",
    wait: "a tool of this test",
  },
  export: {
    ReActAgent: "see Agent",
    HarnessAgent: "see Agent",
    memoryStore: "see Store",
    sqliteStore: "see Store",
    sessionsOf: "see Sessions",
    taskRunner: "see TaskRunner",
    fileTools: "see tool",
    shellTools: "see tool",
    localFilesystem: operator,
    sandboxFilesystem: operator,
    storeFilesystem: operator,
    exportConversations: operator,
    importConversations: operator,
    ...Object.fromEntries(
      [
        ...["agentTool", "assistantMessage", "connectMcp", "ContextStore"],
        ...["isCallOf", "jsonSchema", "RivuletError", "tool", "Toolkit", "userMessage"],
        ...["fromAiMessages", "fromAiTools", "toModelMessages", "toUiMessages", "toolAgent"],
      ].map((name) => [name, noUser]),
    ),
  },
};

function taskOf(user: { readonly userId?: string }, sessionId: string): TaskRecord {
  const taskId = `task_${crypto.randomUUID()}`;
  return {
    ...{ taskId, rootTaskId: taskId, sessionId, path: sessionId, ...user },
    ...{ agentId: "lead", agentName: "lead", agentKey: "agent:lead:x", depth: 0, createdAt: 0 },
    ...({ mode: "sync", status: "queued", committedOutput: 0, input: [] } as const),
  };
}

/** The names of all members of an object and of its classes. */
function membersOf(object: object): readonly string[] {
  const names = new Set<string>();
  for (let at = object; at !== Object.prototype; at = Object.getPrototypeOf(at))
    for (const key of Reflect.ownKeys(at)) names.add(String(key));
  names.delete("constructor");
  return [...names].filter((name) => !/^Symbol\((settings|harness)\)$/.test(name)).sort();
}

it("tries every public entry point", async () => {
  const world = await openWorld("memory", "ann");
  const { agent, store, model } = world;
  const found: Record<string, readonly string[]> = {
    Agent: membersOf(agent),
    Run: membersOf(agent.attach({ sessionId: "own-idle" }, world.owner)),
    Sessions: membersOf(sessionsOf(store)),
    Memory: membersOf(agent.memory()),
    Store: membersOf(store).filter((name) => name !== "memory"),
    TaskRunner: membersOf(taskRunner({ agents: [agent] })),
    tool: [...toolNames(model.calls[0])].sort(),
    export: Object.keys(rivulet).sort(),
  };
  const listed = Object.entries(entries).map(([surface, members]) => [
    surface,
    Object.keys(members).sort(),
  ]);
  expect(found).toEqual(Object.fromEntries(listed));
  await world.close();
});

const trials = Object.entries(entries).flatMap(([surface, members]) =>
  Object.entries(members).flatMap(([member, entry]) =>
    typeof entry === "string"
      ? []
      : entry.map((trial) => ({
          ...trial,
          title: `${surface}.${member} on a ${trial.on}: ${trial.name ?? ""}`,
        })),
  ),
);

const users: readonly User[] = ["ann", undefined];
for (const kind of ["memory", "sqlite"] as const)
  for (const owner of users) {
    const intruders: readonly User[] = owner === undefined ? ["bob"] : ["bob", undefined];
    if (kind === "sqlite" && owner === undefined) continue; // the entry points are the same
    for (const user of intruders) {
      describe(`${user ?? "no user"} finds and changes nothing of ${owner ?? "no user"} (${kind})`, () => {
        let world: World;
        beforeAll(async () => {
          world = await openWorld(kind, owner);
        });
        afterAll(() => world.close());

        // Without a user the workspace is the common layer, which every user reads.
        const tried = trials.filter(({ on }) => on !== "file" || owner !== undefined);
        it.each(tried.map((trial) => [trial.title, trial] as const))("%s", async (_, trial) => {
          const own = { sessionId: `other-${crypto.randomUUID()}`, ...userOf(user) };
          const intruder: Intruder = { world, user: userOf(user), own };
          for (const target of world.targets) {
            const before = await world.dump();
            const raw = await outcomeOf(trial.attempt(intruder, target));
            expect(await world.dump()).toBe(before);
            expect(raw).not.toContain(secret);
            if (trial.expect === "nothing") {
              const { path: _, label: __, ...ids } = target;
              for (const id of Object.values(ids)) expect(raw).not.toContain(id);
              continue;
            }
            const control =
              trial.expect === "same" ? trial.attempt(intruder, unknown) : trial.expect(intruder);
            expect(without(target, raw)).toBe(without(unknown, await outcomeOf(control)));
          }
          expect(world.executed).toEqual([]);
        });

        it("leaves everything to the owner", async () => {
          const [idle, suspended] = world.targets.map(({ sessionId }) => sessionId);
          const mine = { ...world.owner, sessionId: idle ?? "" };
          await world.agent.call(
            calls({ call: "read_file", input: { path: "notes/secret.md" } }),
            mine,
          );
          const read = (await world.store.session(idle ?? "")).findLast(
            ({ role }) => role === "tool",
          );
          expect(JSON.stringify(read)).toContain(secret);
          const open = { ...world.owner, sessionId: suspended ?? "" };
          const approvals = await world.agent.approvals(open);
          const [approval] = approvals as readonly [Approval];
          expect((await world.agent.call(approval.approve(), open)).text).toBe("done");
          expect(world.executed).toEqual([secret]);
        });
      });
    }
  }

describe("two users who start one session at once", () => {
  it.each(["memory", "sqlite"] as const)("exactly one has it (%s)", async (kind) => {
    const folder = createFolder();
    const file = join(folder, "store.db");
    const first = kind === "memory" ? memoryStore() : sqliteStore(file);
    const stores = [first, kind === "memory" ? first : sqliteStore(file)];
    const agents = stores.map(
      (store) =>
        new HarnessAgent({ name: "lead", model: puppet(), store, workspace: join(folder, "w") }),
    );
    for (let round = 0; round < 20; round++) {
      const sessionId = `shared-${round}`;
      const users = round % 2 === 0 ? ["ann", "bob"] : ["ann", undefined];
      const ends = await Promise.allSettled(
        users.map((user, index) =>
          agents[index]?.call(`I am ${user}.`, { sessionId, ...userOf(user) }),
        ),
      );
      const winner = ends.findIndex(({ status }) => status === "fulfilled");
      const loser = ends.find(({ status }) => status === "rejected") as PromiseRejectedResult;
      expect(loser?.reason).toMatchObject({
        code: "not_found",
        message: `There is no session ${sessionId}.`,
      });
      const tasks = await first.tasks({ sessionId });
      expect(tasks.map(({ userId, status }) => [userId, status])).toEqual([
        [users[winner], "completed"],
      ]);
      expect(await first.posts({ conversation: sessionId })).toEqual([]);
      expect(JSON.stringify(await first.session(sessionId))).not.toContain(
        `I am ${users[1 - winner]}`,
      );
    }
    for (const agent of agents) await agent.close();
    for (const store of new Set(stores)) await store.close();
    removeFolder(folder);
  });
});
