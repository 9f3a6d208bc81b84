import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import * as client from "../src/client.ts";
import type {
  HarnessAgentOptions,
  ReActAgentOptions,
  RunOptions,
  StreamOptions,
} from "../src/index.ts";
import * as main from "../src/index.ts";
import * as protocol from "../src/protocol.ts";
import * as schema from "../src/schema.ts";
import * as server from "../src/server.ts";
import * as testing from "../src/testing.ts";
import { collect } from "./agent/support/collect.ts";
import { badCalls, type Entry, methodsOf, problemOf } from "./support/bad-input.ts";

const { memoryStore, ReActAgent, HarnessAgent, scriptedModel } = { ...main, ...testing };
const directory = mkdtempSync(join(tmpdir(), "rivulet-bad-input-"));
const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => unhandled.push(reason);
process.on("unhandledRejection", onUnhandled);
afterAll(() => void process.off("unhandledRejection", onUnhandled));

const model = () => scriptedModel(() => "done");
const ready = () => new ReActAgent({ name: "ready", model: model(), store: memoryStore() });
const harness = () => {
  const options = { model: model(), store: memoryStore(), filesystem: false } as const;
  return new HarnessAgent({ name: "harness", ...options });
};
const remembering = () => {
  const store = memoryStore();
  const filesystem = main.storeFilesystem(store);
  return new HarnessAgent({ name: "harness", model: model(), store, filesystem });
};
const look = () => main.tool({ name: "look", description: "Looks.", execute: () => "seen" });
const clock = () => new testing.ManualClock();
/** A clock with one sleeper, so that `sleeping()` resolves. */
const asleep = () => {
  const sleeping = clock();
  void sleeping.sleep(1);
  return sleeping;
};
const evalOptions = () => ({
  ...{ name: "capitals", agent: ready(), cases: [{ name: "one", input: "?" }], repeats: 1 },
  ...{ scorers: { exact: testing.exact() }, concurrency: 1, budget: { tokens: 1 }, retries: 0 },
  version: "1",
});
const signal = () => new AbortController().signal;
const execution = { timeoutMs: 100, maxAttempts: 1, initialBackoffMs: 1, maxBackoffMs: 1 };

/** All options of a type: a new option does not compile until it is here. */
type All<T> = { readonly [Name in keyof Required<T>]: unknown };

const agentOptions = (): All<ReActAgentOptions> => ({
  name: "lead",
  agentId: "lead",
  description: "Leads.",
  model: model(),
  models: ["openai:gpt-5-mini"],
  systemPrompt: "Lead.",
  tools: [look()],
  toolkit: undefined,
  toolSources: [],
  hooks: [{ name: "audit", preCall() {} }],
  prepareInput: (messages: unknown) => messages,
  store: memoryStore(),
  maxIters: 2,
  parallel: true,
  execution,
  modelExecution: { ...execution, stallMs: 100 },
  modelOptions: { temperature: 0 },
  permissions: { allow: ["look"] },
  approvalTimeoutMs: 100,
  references: false,
  rawReasoning: false,
  budget: { tokens: 1_000 },
  price: () => ({ amount: 1, currency: "USD" }),
  context: { tenant: "acme" },
  resolveChild: () => undefined,
  wakeOnCompletion: false,
  leaseMs: 10_000,
  version: "1",
  rollout: "move",
  place: "disk",
  tracer: undefined,
  clock: undefined,
  ids: undefined,
});
const harnessOptions = (): All<HarnessAgentOptions> => ({
  ...agentOptions(),
  workspace: undefined,
  filesystem: main.storeFilesystem(memoryStore()),
  isolation: "user",
  contextFiles: ["AGENTS.md"],
  maxContextTokens: 100,
  attachments: false,
  eviction: { maxChars: 100 },
  compaction: { window: 100_000 },
  todos: false,
  planMode: false,
  mcp: {},
  memory: { idleMs: 100, consolidateMs: 100, timeoutMs: 100, scope: "user", onUsage: () => {} },
  skills: ["pdf"],
  toolsFile: { variables: {} },
  subagents: [{ name: "helper", description: "Helps." }],
  subagentFiles: undefined,
  subagentRoots: [directory],
  limits: { maxSpawnDepth: 1, childrenPerTask: 1, parallelChildren: 1 },
  onWarning: () => {},
});
const runOptions = (): All<RunOptions> => ({
  sessionId: "s",
  taskId: "task_1",
  userId: "u",
  signal: signal(),
  output: undefined,
  until: "root",
  onBusy: "queue",
  onSuspended: "fail",
  context: { tenant: "acme" },
  hooks: [{ name: "audit" }],
  budget: { tokens: 1_000 },
  model: "scripted:scripted",
  priority: 1,
  outsideTools: [{ name: "locate" }],
  origin: { via: ["task_0"] },
  metadata: { ticket: 7 },
  onWait: () => {},
});
const streamOptions = (): All<StreamOptions> => ({
  ...runOptions(),
  types: ["agent_result"],
  incremental: true,
  chunks: true,
});

const appOptions = (): All<server.AppOptions> => ({
  agents: [ready()],
  store: undefined,
  auth: { tokens: { ["secret".repeat(4)]: { userId: "u", scopes: ["read"] } } },
  token: "secret".repeat(4),
  hosts: ["localhost"],
  origins: ["https://app.example"],
  adapters: ["agentscope"],
  mcp: { resources: [], prompts: [] },
  nativeRoutes: true,
  cookieMs: 1_000,
  publicUrl: "https://agents.example",
  limits: { bodyBytes: 1_000 },
  prompts: true,
  prices: { "demo:analyst": { input: 1, output: 2 } },
  demo: undefined,
  log: false,
  heartbeatMs: 100,
  retryMs: 100,
  page: false,
  clock: undefined,
});
const serveOptions = (): All<server.ServeOptions> => ({
  ...appOptions(),
  port: 0,
  host: "127.0.0.1",
  run: true,
  lostTasks: "resume",
  watchdog: false,
  shutdownMs: 100,
});
const connectOptions = (): All<client.ConnectOptions> => ({
  token: "secret",
  headers: { "x-tenant": "acme" },
  fetch: refusing,
  clock: undefined,
  random: undefined,
});
/** A network on which no server answers. */
const refusing = () => Promise.resolve(new Response(null, { status: 403 }));
const connected = () => client.connect("http://localhost:1", { fetch: refusing });

/** Runs the agent too, because an option may only matter then. */
const called = (agent: InstanceType<typeof ReActAgent>) => agent.call("Go.");
const one = (run: (...args: never[]) => unknown, ...args: readonly unknown[]): Entry => ({
  args: () => args,
  run,
});
const withOptions = (
  run: (...args: never[]) => unknown,
  ...args: readonly (() => unknown)[]
): Entry => ({ args: () => args.map((arg) => arg()), run, options: [args.length - 1] });
const nothing: Entry = one(() => undefined);
const methods = (
  make: () => object | Promise<object>,
  of: Readonly<Record<string, readonly unknown[]>>,
) =>
  Object.fromEntries(
    Object.entries(of).map(([name, args]): [string, Entry] => [
      name,
      {
        args: () => args,
        options: args.flatMap((arg, at) => (isBag(arg) ? [at] : [])),
        run: async (...given: never[]) => {
          const made = (await make()) as Record<string, (...args: never[]) => unknown>;
          return made[name]?.(...given);
        },
      },
    ]),
  );
const isBag = (arg: unknown) => Object.getPrototypeOf(arg ?? 0) === Object.prototype;

/** A class or function by name, what it takes, and the methods of what it returns. */
interface Export {
  readonly entry: Entry;
  readonly made?: () => object | Promise<object>;
  readonly methods?: Readonly<Record<string, Entry>>;
  /** Methods that are not for users. */
  readonly internal?: readonly string[];
}

const user = { userId: "u" };
const agentMethods = (make: () => InstanceType<typeof ReActAgent>) => ({
  run: withOptions(
    (input, options) => make().run(input, options),
    () => "Go.",
    runOptions,
  ),
  stream: withOptions(
    (input, options) => make().stream(input, options),
    () => "Go.",
    streamOptions,
  ),
  call: withOptions(
    (input, options) => make().call(input, options),
    () => "Go.",
    runOptions,
  ),
  ...methods(make, {
    approvals: [{ sessionId: "s" }],
    attach: [{ sessionId: "s" }, { userId: "u", after: -1, until: "root" }],
    observe: [
      "Hi.",
      { sessionId: "s", userId: "u", onBusy: "queue", signal: signal(), onWait: () => {} },
    ],
  }),
});
const files = () => main.storeFilesystem(memoryStore());
const fileMethods = (make: () => object) =>
  methods(make, {
    within: [{ scope: "user", id: "u" }],
    below: ["notes"],
    stat: ["a.md"],
    read: ["a.md"],
    write: ["a.md", "text", { ifVersion: null }],
    remove: ["a.md"],
    rename: ["a.md", "b.md"],
    normalize: ["a.md"],
    list: [""],
    glob: ["*.md", { path: "", signal: signal() }],
    grep: [
      { pattern: "a", literal: true, ignoreCase: true },
      { path: "", glob: "*", signal: signal() },
    ],
  });
const retention = { logs: { maxAgeMs: 1, maxBytes: 1 } };
const lease = { sessionId: "s", owner: "o", fence: 1, expiresAt: 1 };
const record = {
  ...{ taskId: "t", rootTaskId: "t", sessionId: "s", agentId: "a", agentName: "a" },
  ...{ agentKey: "k", depth: 0, path: "s", createdAt: 1, mode: "sync", status: "queued" },
  committedOutput: 0,
};
const row = { id: "p", kind: "hint", sessionId: "s" };
const claimed = {
  claim: ["o", 100, 10, { agents: [{ agentId: "a", version: "1" }], places: ["p"], maxLosses: 1 }],
};
const storeMethods = (make: () => object, more: Parameters<typeof methods>[1] = {}) =>
  methods(make, {
    ...more,
    acquire: ["s", "o", 100],
    renew: [[lease], 100],
    release: [lease],
    owner: ["s"],
    expired: [10],
    heartbeat: [
      { nodeId: "n", name: "h", startedAt: 0, agents: [], places: [], conversations: [] },
      100,
    ],
    nodes: [],
    commit: [
      {
        lease,
        log: "t",
        events: [],
        appends: [],
        tasks: [record],
        posts: [row],
        taken: [],
        begins: "t",
      },
    ],
    enqueue: [record, { ifIdle: true }],
    post: [[row]],
    posts: [{ conversation: "s", sessionId: "s", rootTaskId: "t" }],
    read: ["t", -1, 10],
    last: ["t"],
    trim: ["t", { through: 0, tasks: [] }],
    snapshot: ["t"],
    session: ["s", 0, 10],
    sessions: [{ userId: "u", sessionId: "s", limit: 10, before: "s" }],
    search: [{ text: "word", userId: "u", limit: 10 }],
    deleteSession: ["s"],
    task: ["t"],
    tasks: [{ sessionId: "s", status: ["queued"], limit: 10 }],
    watch: [{ log: "t" }, () => {}],
    close: [],
  });
const exampleModel = { prompt: [], abortSignal: signal() };

const exports: Readonly<Record<string, Export>> = {
  "main.ReActAgent": {
    entry: withOptions((options) => called(new ReActAgent(options)), agentOptions),
    made: ready,
    methods: agentMethods(ready),
  },
  "main.HarnessAgent": {
    entry: {
      ...withOptions((options) => called(new HarnessAgent(options)), harnessOptions),
      skip: {
        "0.workspace": "it excludes `filesystem`",
        "0.store": "the default is a file in the working directory; ReActAgent covers it",
        "0.filesystem":
          "undefined is a directory in the working directory; a test below covers the rest",
      },
    },
    made: harness,
    methods: {
      ...agentMethods(harness),
      ...methods(harness, {
        close: [],
        deleteSession: ["s", { userId: "u" }],
        memory: [user],
        skills: [],
        compact: ["s", { userId: "u", onBusy: "queue", signal: signal(), onWait: () => {} }],
      }),
    },
  },
  "main.tool": {
    entry: withOptions(main.tool, () => ({
      name: "look",
      description: "Looks.",
      input: z.object({ at: z.string() }),
      preset: {},
      idempotent: true,
      exclusive: true,
      citable: true,
      readOnly: false,
      execution,
      needsApproval: false,
      execute: () => "seen",
    })),
  },
  "main.isCallOf": {
    entry: one(main.isCallOf, main.tool({ name: "look", description: "Looks." }), {
      name: "look",
      input: {},
    }),
  },
  "main.Toolkit": {
    entry: withOptions(
      (options) => new main.Toolkit(options),
      () => ({
        tools: [look()],
        groups: { more: { description: "More.", tools: [], active: true } },
        sources: [],
        onChunk: () => {},
        execution,
        context: {},
        extraInput: { look: {} },
      }),
    ),
    made: () => new main.Toolkit({ tools: [look()] }),
    methods: methods(() => new main.Toolkit(), { with: [[look()], []] }),
    internal: ["active", "explainMissing", "find", "refresh", "without"],
  },
  "main.agentTool": {
    entry: withOptions(main.agentTool, ready, () => ({ name: "ask", description: "Asks." })),
  },
  "main.toolAgent": {
    entry: withOptions(main.toolAgent, look, () => ({ store: undefined, permissions: {} })),
  },
  "main.ContextStore": {
    entry: one((values) => new main.ContextStore(values), { tenant: "acme" }),
    made: () => new main.ContextStore(),
    methods: methods(() => new main.ContextStore({ tenant: "acme" }), {
      with: ["key", 1],
      get: ["key", Map],
    }),
  },
  "main.connectMcp": {
    entry: {
      ...withOptions(
        main.connectMcp,
        () => ({
          name: "wiki",
          command: "no-such-command-of-rivulet",
          args: [],
          env: {},
          cwd: ".",
        }),
        () => ({
          prefix: "wiki_",
          execution,
          connectTimeoutMs: 1_000,
          trustReadOnly: false,
          signal: signal(),
          reconnect: execution,
          clock: clock(),
          random: Math.random,
        }),
      ),
      options: [0, 1],
    },
  },
  "main.fromAiTools": {
    entry: withOptions(
      main.fromAiTools,
      () => ({}),
      () => ({ toolsContext: {} }),
    ),
  },
  "main.fromAiMessages": { entry: one(main.fromAiMessages, []) },
  "main.toModelMessages": { entry: one(main.toModelMessages, []) },
  "main.toUiMessages": { entry: one(main.toUiMessages, []) },
  "main.jsonSchema": { entry: one(main.jsonSchema, { type: "object" }) },
  "main.fileTools": { entry: withOptions(main.fileTools, files, () => ({ scope: "user" })) },
  "main.localFilesystem": {
    entry: withOptions(
      main.localFilesystem,
      () => directory,
      () => ({
        ...{ readOnly: [], shared: [], limits: { fileBytes: 10 }, ripgrep: false, handles: false },
      }),
    ),
    made: () => main.localFilesystem(directory),
    methods: {
      ...fileMethods(() => main.localFilesystem(directory)),
      ...methods(() => main.localFilesystem(directory), { track: ["a.md"] }),
    },
  },
  "main.sandboxFilesystem": {
    entry: withOptions(
      main.sandboxFilesystem,
      () => directory,
      () => ({
        ...{ readOnly: [], limits: { fileBytes: 10 }, ripgrep: false, jail: "just-bash" as const },
        ...{ network: false, env: { A: "b" }, systemPaths: ["/usr"], onWarning: () => {} },
        commands: { timeoutMs: 1, outputBytes: 1 },
      }),
    ),
    made: () => main.sandboxFilesystem(directory, { jail: "just-bash" }),
    methods: {
      ...fileMethods(() => main.sandboxFilesystem(directory, { jail: "just-bash" })),
      ...methods(() => main.sandboxFilesystem(directory, { jail: "just-bash" }), {
        track: ["a.md"],
      }),
    },
  },
  "main.shellTools": { entry: withOptions(main.shellTools, files, () => ({ scope: "user" })) },
  "main.storeFilesystem": {
    entry: withOptions(main.storeFilesystem, memoryStore, () => ({
      ...{ readOnly: [], shared: [], limits: { fileBytes: 10 }, ripgrep: false, prefix: "w" },
    })),
    made: files,
    methods: fileMethods(files),
  },
  "server.createApp": { entry: withOptions(server.createApp, appOptions) },
  "server.serve": {
    entry: withOptions(
      async (options: server.ServeOptions) => (await server.serve(options)).close(),
      serveOptions,
    ),
  },
  "client.connect": {
    entry: withOptions(client.connect, () => "http://localhost:1", connectOptions),
    made: connected,
    methods: methods(connected, {
      agent: ["lead"],
      task: ["task_1"],
      approvals: [{ limit: 1 }],
      usage: [{ by: ["agent"] }],
    }),
  },
  "client.createTaskStore": {
    entry: withOptions(
      client.createTaskStore,
      () => ready().run("Go."),
      () => ({ schedule: (work: () => void) => setImmediate(work) }),
    ),
  },
  "main.memoryStore": {
    entry: withOptions(memoryStore, () => ({ clock: clock(), maxLogBytes: 1_000, retention })),
    made: memoryStore,
    methods: storeMethods(memoryStore, claimed),
  },
  "main.sqliteStore": {
    entry: {
      ...withOptions(
        (path, options) => main.sqliteStore(path, options).close(),
        () => join(directory, "store.db"),
        () => ({ clock: clock(), retention }),
      ),
      skip: {
        "0": "any other string is a file in the working directory; a test below covers the rest",
      },
    },
    made: () => main.sqliteStore(join(directory, "methods.db")),
    methods: (() => {
      const store = main.sqliteStore(join(directory, "methods.db"));
      const synchronous = methods(() => store, { releaseNow: [lease, false] });
      return { ...storeMethods(() => store), ...synchronous, close: nothing };
    })(),
  },
  "main.exportConversations": {
    entry: withOptions(
      (store, ids) => collect(main.exportConversations(store, ids)),
      memoryStore,
      () => [],
    ),
  },
  "main.importConversations": {
    entry: withOptions(main.importConversations, memoryStore, () => [
      '{"format":"rivulet-conversations","version":1}',
    ]),
  },
  "main.sessionsOf": {
    entry: withOptions(main.sessionsOf, memoryStore, () => user),
    made: () => main.sessionsOf(memoryStore()),
    methods: methods(() => main.sessionsOf(memoryStore(), user), {
      list: [{ limit: 10, before: "s" }],
      read: ["s", { from: 0, limit: 1 }],
      search: ["word", { limit: 1 }],
      fork: ["s", { taskId: "t" }],
      export: ["s"],
    }),
  },
  "main.HarnessAgent.memory": {
    entry: withOptions(
      (scope) => remembering().memory(scope),
      () => ({ ...user, sessionId: "s" }),
    ),
    made: () => remembering().memory(),
    methods: methods(() => remembering().memory(user), {
      list: [],
      read: ["MEMORY.md"],
      edit: ["MEMORY.md", "- Fact."],
      search: ["word", { limit: 1 }],
      forget: ["word"],
      flush: [],
    }),
  },
  "main.taskRunner": {
    entry: withOptions(main.taskRunner, () => ({
      agents: [ready()],
      lostTasks: "resume",
      intervalMs: 100,
      clock: clock(),
      onProblem: () => {},
    })),
    made: () => main.taskRunner({ agents: [ready()] }),
    methods: methods(() => main.taskRunner({ agents: [ready()] }), {
      sweep: [],
      start: [],
      cancel: ["t", "reason"],
      shutDown: [],
    }),
  },
  "main.userMessage": { entry: one(main.userMessage, "Hello.") },
  "main.assistantMessage": { entry: one(main.assistantMessage, "Hello.", "lead") },
  "main.RivuletError": {
    entry: {
      args: () => ["code", "message", {}],
      run: (code, message, options) => void new main.RivuletError(code, message, options),
      skip: { "1": "an error has no other error to throw", "2": "the same" },
    },
    made: () => new main.RivuletError("code", "message"),
    methods: methods(() => new main.RivuletError("code", "message"), { at: [{}], toJSON: [] }),
    internal: ["toString"],
  },
  ...protocolExports(),
  "schema.parseEvent": { entry: one(schema.parseEvent, {}) },
  "testing.ManualClock": {
    entry: one((now) => new testing.ManualClock(now), 0),
    made: clock,
    methods: methods(asleep, {
      now: [],
      sleep: [0, signal()],
      sleeping: [{ count: 1 }],
      advance: [1],
    }),
  },
  "testing.scriptedModel": {
    entry: withOptions(
      scriptedModel,
      () => ["done"],
      () => ({ by: "call", modelId: "scripted", clock: clock() }),
    ),
    made: model,
    methods: methods(model, { doStream: [exampleModel], doGenerate: [exampleModel] }),
  },
  "testing.withFaults": {
    entry: withOptions(testing.withFaults, model, () => ({
      ...{ failCalls: [0], onCalls: [0], cutWith: "end", error: new Error("x") },
      ...{ cutAfterChunks: 1, stallAfterChunks: 2 },
    })),
    made: () => testing.withFaults(model(), {}),
    methods: methods(() => testing.withFaults(model(), {}), {
      doStream: [exampleModel],
      doGenerate: [exampleModel],
    }),
  },
  "testing.faultyFetch": {
    entry: withOptions(
      testing.faultyFetch,
      () => fetch,
      () => ({
        ...{ failCalls: [0], onCalls: [0], cutWith: "end", error: new Error("x"), status: 500 },
        ...{ cutAfterBytes: 1, stallAfterBytes: 2, malformAtByte: 3, headers: {} },
      }),
    ),
  },
  "testing.recordReplay": {
    entry: withOptions(testing.recordReplay, () => ({
      ...{ directory, mode: "replay", fetch, secrets: [] },
    })),
  },
  "testing.recordRun": {
    entry: withOptions(
      testing.recordRun,
      () => ready(),
      () => "task_1",
      () => join(directory, "run.json"),
      () => ({ call: {} }),
    ),
  },
  "testing.replayRun": {
    entry: withOptions(
      testing.replayRun,
      () => [ready()],
      () => join(directory, "run.json"),
      () => ({ models: "recorded", tools: "live", call: {} }),
    ),
  },
  "testing.runOf": { entry: { ...one(testing.runOf, { rootId: "t", tasks: {} }), options: [0] } },
  "testing.defineEval": { entry: withOptions(testing.defineEval, evalOptions) },
  "testing.runEval": {
    entry: withOptions(
      testing.runEval,
      () => testing.defineEval(evalOptions()),
      () => ({
        ...{ store: memoryStore(), signal: signal(), onProgress: () => {}, concurrency: 1 },
        ...{ retryFailed: false, clock: clock() },
      }),
    ),
  },
  "testing.evalSuite": {
    entry: withOptions(
      testing.evalSuite,
      () => testing.defineEval(evalOptions()),
      () => ({ store: memoryStore(), retryFailed: false, failBelow: 0.5 }),
    ),
  },
  "testing.exact": { entry: one(testing.exact) },
  "testing.contains": { entry: one(testing.contains, "Paris") },
  "testing.matchesSchema": { entry: one(testing.matchesSchema, z.object({})) },
  "testing.citationsResolve": { entry: one(testing.citationsResolve) },
  "testing.agentWasCalled": { entry: one(testing.agentWasCalled, "helper") },
  "testing.costBelow": { entry: one(testing.costBelow, 1) },
  "testing.stepsBelow": { entry: one(testing.stepsBelow, 3) },
  "testing.judge": { entry: one(testing.judge, model(), "Be strict.") },
  "testing.storeContract": { entry: one(testing.storeContract, () => ({})) },
  "testing.filesystemContract": { entry: one(testing.filesystemContract, () => ({})) },
};

/** The functions and classes that only `rivulet/protocol` exports. */
function protocolExports(): Readonly<Record<string, Export>> {
  const created = {
    ...{ type: "task.created", task_id: "t", sequence_number: 0, task_seq: 0, created_at: 1 },
    task: { id: "t", object: "task", status: "queued", agentId: "a" },
  } as unknown as protocol.StreamFrame;
  const tree = () => protocol.reduce(protocol.emptyTree(), created);
  const copy = () => structuredClone(tree());
  const fold = { legacy: false, filtered: false };
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  const source = { agentId: "a", depth: 1, path: "s/a" };
  const through = { sequenceNumber: 0, createdAt: 1 };
  const block = { type: "text", text: "See [^1]." } as const;
  const ofTree = (run: (...args: never[]) => unknown, ...rest: readonly unknown[]): Entry => ({
    args: () => [copy(), ...rest],
    run,
    options: [0],
  });
  return {
    "protocol.addUsage": { entry: { ...one(protocol.addUsage, usage, usage), options: [0] } },
    "protocol.billOfTree": { entry: ofTree(protocol.billOfTree, { by: ["agent"] }) },
    "protocol.priceBy": { entry: one(protocol.priceBy, { m: { input: 1, output: 2 } }) },
    "protocol.checkStream": {
      entry: withOptions(
        protocol.checkStream,
        () => [created],
        () => ({ ...fold, partial: true }),
      ),
    },
    "protocol.childrenOf": { entry: ofTree(protocol.childrenOf, "t", 0) },
    "protocol.decodeSse": {
      entry: withOptions(
        protocol.decodeSse,
        () => protocol.encodeSse(created),
        () => ({ maxEventChars: 1_000 }),
      ),
    },
    "protocol.emptyTree": { entry: nothing },
    "protocol.encodeSse": {
      entry: {
        args: () => [created, { eventNames: true, id: 1 }],
        run: protocol.encodeSse,
        options: [0, 1],
      },
    },
    "protocol.isTerminal": { entry: one(protocol.isTerminal, "completed") },
    "protocol.materialize": {
      entry: {
        args: () => [copy(), "t", { include: ["content"], seed: true }],
        run: protocol.materialize,
        options: [0, 2],
      },
    },
    "protocol.openItems": { entry: ofTree(protocol.openItems) },
    "protocol.prependSource": { entry: one(protocol.prependSource, source, source) },
    "protocol.reduce": {
      entry: {
        args: () => [copy(), [created], fold],
        run: protocol.reduce,
        options: [0, 2],
      },
    },
    "protocol.rootTask": { entry: ofTree(protocol.rootTask) },
    "protocol.snapshotOf": { entry: ofTree(protocol.snapshotOf, "t", through) },
    "protocol.sourceRef": { entry: one(protocol.sourceRef, { ...source, taskId: "t" }) },
    "protocol.SseDecoder": {
      entry: withOptions(
        (options) => new protocol.SseDecoder(options),
        () => ({ maxEventChars: 1 }),
      ),
      made: () => new protocol.SseDecoder(),
      methods: methods(() => new protocol.SseDecoder(), { push: ["data: {}\n\n"], end: [] }),
    },
    "protocol.subtreeUsage": { entry: ofTree(protocol.subtreeUsage, "t") },
    "protocol.taskOf": { entry: ofTree(protocol.taskOf, "t") },
    "protocol.TaskTree": {
      entry: withOptions(
        (options) => new protocol.TaskTree(options).apply(created).tree,
        () => ({ ...fold, from: copy() }),
      ),
      made: () => new protocol.TaskTree(),
      methods: methods(() => new protocol.TaskTree(), { apply: [created], task: ["t"] }),
    },
    "protocol.TaskWriter": {
      entry: withOptions(
        (task, options) => new protocol.TaskWriter(task, options),
        () => "t",
        () => ({ write: () => {}, now: () => 1, source: undefined }),
      ),
      made: () => writing().writer,
      methods: writerMethods(),
    },
    "protocol.textOf": { entry: one(protocol.textOf, [block]) },
    "protocol.waitingApprovals": { entry: ofTree(protocol.waitingApprovals) },
  };
}

/** A writer with open items and parts. */
function writing() {
  const writer = new protocol.TaskWriter("t", { write: () => {}, now: () => 1 });
  writer.create();
  writer.start();
  const message = writer.open({ type: "message", id: "m" });
  const image = writer.openPart(message, { type: "image" });
  const text = writer.openPart(message);
  writer.delta(text, "See [^1].");
  const call = writer.open({ type: "tool_call", id: "c", call_id: "k", name: "look" });
  writer.close(call);
  const result = writer.open({ type: "tool_result", id: "r", call_id: "k" });
  return { writer, message, image, text, result };
}

function writerMethods(): Readonly<Record<string, Entry>> {
  const cited = { type: "reference_to_block", reference_id: 1, start_index: 4, end_index: 8 };
  const picture = { type: "image", image_url: { url: "https://a.test" } };
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  const agent = { id: "helper", key: "agent:helper:1" };
  type Writing = ReturnType<typeof writing>;
  const on = (use: (writing: Writing, ...args: never[]) => unknown, ...args: unknown[]) =>
    one((...given: never[]) => use(writing(), ...given), ...args);
  return {
    create: on((_, task) => new protocol.TaskWriter("t", { write() {} }).create(task), {}),
    start: on(() => {
      const writer = new protocol.TaskWriter("t", { write() {} });
      writer.create();
      writer.start();
    }),
    item: on(({ writer }, id) => writer.item(id), "m"),
    call: on(({ writer }, id) => writer.call(id), "k"),
    result: on(({ writer }, id) => writer.result(id), "k"),
    open: on(({ writer }, item) => writer.open(item), { type: "message", id: "n" }),
    openPart: on(({ writer, message }, part) => writer.openPart(message, part), { type: "text" }),
    delta: on(({ writer, text }, more) => writer.delta(text, more), "more"),
    annotate: on(({ writer, text }, citation) => writer.annotate(text, citation), cited),
    preview: on(({ writer, image }, shown) => writer.preview(image, shown), picture),
    block: on(({ writer, message }, block) => writer.block(message, block), picture),
    closePart: on(({ writer, image }, whole) => writer.closePart(image, whole), picture),
    progress: on(({ writer, result }, report) => writer.progress(result, report), { progress: 1 }),
    reference: on(({ writer, message }, source) => writer.reference(message, source), { id: "a" }),
    close: on(({ writer, result }, end) => writer.close(result, end), { status: "completed" }),
    discard: on(({ writer, result }, reason) => writer.discard(result, reason), "recovered"),
    startChild: on(({ writer, result }, child) => writer.startChild(result, child), {
      mode: "sync",
      agent,
    }),
    finishChild: on(
      ({ writer, result }, id, end) => {
        writer.startChild(result, { mode: "sync", agent });
        writer.finishChild(id, end);
      },
      "k",
      { status: "completed" },
    ),
    promoteChild: on(({ writer, result }, id) => {
      writer.startChild(result, { mode: "sync", agent });
      writer.promoteChild(id);
    }, "k"),
    ask: on(({ writer }, approval) => writer.ask(approval), {
      ...{ approval_id: "a", kind: "tool_call", call_id: "k" },
    }),
    resolve: on(
      ({ writer }, id, decision) => {
        writer.ask({ approval_id: "a", kind: "stop" });
        writer.resolve(id, decision);
      },
      "a",
      { decision: "approve" },
    ),
    suspend: on(({ writer }, wait) => writer.suspend(wait), { reason: "stop_requested" }),
    resume: on(({ writer }, reason) => {
      writer.suspend({ reason: "stop_requested" });
      writer.resume(reason);
    }, "continued"),
    cancelling: on(({ writer }, request) => writer.cancelling(request), { reason: "late" }),
    usage: on(({ writer }, total) => writer.usage(total), usage),
    hint: on(({ writer }, hint) => writer.hint(hint), { id: "h", text: "Hint." }),
    custom: on(({ writer }, name, value) => writer.custom(name, value), "name", 1),
    end: on(({ writer }, end) => writer.end(end), { status: "completed" }),
  };
}

it("bad arguments of rivulet/protocol throw, and bad events are counted", () => {
  const { reduce, emptyTree, taskOf, materialize, SseDecoder, decodeSse } = protocol;
  const invalid = expect.objectContaining({ code: "invalid_argument" });
  const calls: readonly ((bad: never) => unknown)[] = [
    (bad) => reduce(bad, []),
    (bad) => reduce(emptyTree(), [], { legcy: bad } as object),
    (bad) => taskOf(emptyTree(), bad),
    (bad) => taskOf(bad, "t"),
    (bad) => materialize(bad),
    (bad) => materialize(emptyTree(), bad),
    (bad) => new SseDecoder().push(bad),
    (bad) => decodeSse(bad),
    (bad) => new SseDecoder({ maxEventChars: bad }),
  ];
  for (const call of calls)
    for (const bad of [null, {}, true]) expect(() => call(bad as never)).toThrow(invalid);
  expect(reduce(emptyTree(), [null, 1, {}] as never)).toMatchObject({ ignored: 3 });
});

it.each(["nonsense", -1, [], {}, () => {}, true])(
  "HarnessAgent rejects %o as its filesystem",
  async (filesystem) => {
    const options = { name: "lead", model: model(), store: memoryStore(), filesystem };
    expect(() => new HarnessAgent(options as never)).toThrow(
      expect.objectContaining({ code: "invalid_settings", hint: expect.any(String) }),
    );
  },
);

it.each([undefined, null, true, -1, [], {}, () => {}, Symbol("odd"), 10n])(
  "sqliteStore rejects %o as its path",
  (path) => {
    expect(() => main.sqliteStore(path as never)).toThrow(
      expect.objectContaining({ code: "invalid_argument", hint: expect.any(String) }),
    );
  },
);

/** Runs `use` inside a tool, and throws what it throws. */
async function inTool(use: (context: main.ToolContext) => unknown): Promise<unknown> {
  let outcome: () => unknown = () => undefined;
  const probe = main.tool({
    name: "probe",
    description: "Probes.",
    async execute(_, context) {
      try {
        await use(context);
      } catch (error) {
        outcome = () => {
          throw error;
        };
      }
      return "done";
    },
  });
  const script = scriptedModel([[{ call: "probe" }], "done"]);
  await new ReActAgent({ name: "lead", model: script, tools: [probe] }).call("Go.");
  return outcome();
}

/** Suspends a call; the exception of `suspend` itself is not a problem. */
function suspended(context: main.ToolContext, reason: string): void {
  try {
    context.suspend(reason);
  } catch (error) {
    if ((error as Error).name !== "Suspension") throw error;
  }
}

async function waiting(): Promise<main.Approval> {
  const act = main.tool({
    ...{ name: "act", description: "Acts.", needsApproval: true },
    execute: () => "acted",
  });
  const script = scriptedModel([[{ call: "act" }], "done"]);
  const agent = new ReActAgent({ name: "lead", model: script, tools: [act] });
  return (await agent.call("Go.")).approvals[0] as main.Approval;
}

/** Objects that methods and callbacks hand out. */
const handedOut: typeof exports = {
  run: {
    entry: nothing,
    made: () => ready().run("Go."),
    methods: methods(() => ready().run("Go."), {
      events: [{ after: -1, until: "root" }],
      result: [],
      cancel: ["reason"],
      steer: ["more"],
      settled: [],
    }),
    internal: ["before"],
  },
  approval: {
    entry: nothing,
    made: waiting,
    methods: methods(waiting, {
      approve: [{ always: true }],
      deny: ["reason"],
      edit: [{}],
      answer: ["output"],
    }),
  },
  "tool context": {
    entry: nothing,
    methods: {
      emit: one((chunk) => inTool((context) => context.emit(chunk)), "chunk"),
      progress: one((report) => inTool((context) => context.progress(report)), { progress: 1 }),
      get: one((key) => inTool((context) => context.get(key)), "key"),
      suspend: one((reason) => inTool((context) => suspended(context, reason)), "reason"),
      runChild: withOptions(
        (agent, input, options) => inTool((context) => context.runChild(agent, input, options)),
        ready,
        () => "Go.",
        () => ({ agentId: "kid", mode: "sync", label: "kid", timeoutMs: 1_000 }),
      ),
    },
  },
};

async function problemsOf(entry: Entry): Promise<readonly string[]> {
  const problems: string[] = [];
  for (const [what, args] of badCalls(entry)) {
    const problem = await problemOf(() => entry.run(...(args as never[])));
    if (problem !== undefined) problems.push(`${what} ${problem}`);
  }
  return problems;
}

it("every function of rivulet and its other entries, but for the hooks of React, is in the table", () => {
  const isAgain = (name: string, value: unknown) =>
    Object.entries(main).some((other) => other[0] === name && other[1] === value);
  const modules = { main, protocol, schema, testing, server, client };
  const all = Object.entries(modules).flatMap(([module, exported]) =>
    Object.entries(exported).flatMap(([name, value]) => {
      const isCallable = typeof value === "function";
      const isCovered = module !== "main" && isAgain(name, value);
      return isCallable && !isCovered ? [`${module}.${name}`] : [];
    }),
  );
  expect(
    Object.keys(exports)
      .filter((name) => name.split(".").length === 2)
      .sort(),
  ).toEqual(all.sort());
});

describe.each(Object.entries({ ...exports, ...handedOut }))(
  "bad input of %s",
  (_, { entry, made, ...rest }) => {
    it("succeeds or throws a RivuletError with code, message and hint", async () => {
      expect(await problemsOf(entry)).toEqual([]);
    });

    if (made) {
      it("has all its methods in the table", async () => {
        const names = methodsOf(await made()).filter((name) => !rest.internal?.includes(name));
        expect(Object.keys(rest.methods ?? {}).sort()).toEqual(names);
      });
    }

    it.each(Object.entries(rest.methods ?? {}))("also of %s()", async (_name, method) => {
      expect(await problemsOf(method)).toEqual([]);
    });
  },
);

it("no bad input leaves an unhandled rejection or a polluted prototype", async () => {
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
  expect(Object.keys(Object.prototype)).toEqual([]);
});
