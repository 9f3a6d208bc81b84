import { describe, expect, it } from "vitest";
import {
  HarnessAgent,
  type Hook,
  ReActAgent,
  type ReActAgentOptions,
  Toolkit,
  taskRunner,
  tool,
} from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";

const model = scriptedModel(["done"]);

/** Of a value that a type would refuse. */
function make(options: Readonly<Record<string, unknown>>): ReActAgent {
  return new ReActAgent({ name: "lead", model, ...options } as ReActAgentOptions);
}

function refused(message: string, hint?: string) {
  return expect.objectContaining({
    code: "invalid_settings",
    message: expect.stringContaining(message),
    hint: hint === undefined ? expect.any(String) : expect.stringContaining(hint),
  });
}

describe("the constructor rejects", () => {
  it.each(["1h", Number.NaN, 0, -1, 1.5, Number.POSITIVE_INFINITY, null])(
    "approvalTimeoutMs: %j",
    (approvalTimeoutMs) => {
      expect(() => make({ approvalTimeoutMs })).toThrow(
        refused("`approvalTimeoutMs` must be an integer "),
      );
    },
  );

  it.each(["parallel", "references", "rawReasoning", "wakeOnCompletion"])("%s: 'no'", (name) => {
    expect(() => make({ [name]: "no" })).toThrow(
      refused(`\`${name}\` must be a boolean, got "no".`, "Pass a boolean."),
    );
    expect(() => make({ [name]: undefined })).not.toThrow();
  });

  it.each([
    [{ hooks: { name: "one" } }, "`hooks` must be an array, got an object."],
    [{ tools: "all" }, '`tools` must be an array, got "all".'],
    [{ price: 3 }, "`price` must be a function, got 3."],
    [{ modelOptions: "hot" }, '`modelOptions` must be an object, got "hot".'],
    [{ execution: 5_000 }, "`execution` must be an object, got 5000."],
    [{ tracer: {} }, "`tracer` must be an object with startSpan(), got an object."],
    [
      { store: {} },
      '`store` must be a store, or "memory", "sqlite:path" or "postgres://…", got an object.',
    ],
    [{ clock: Date }, "`clock` must be an object with now() and sleep(), got a function."],
    [{ modelOptions: { temprature: 1 } }, "modelOptions has no option `temprature`."],
    [{ toolkit: {} }, "`toolkit` must be a Toolkit, got an object."],
    [{ systemPrompt: ["Be brief."] }, "`systemPrompt` must be a string, got an array."],
  ])("%j", (options, message) => {
    expect(() => make(options)).toThrow(refused(message));
  });

  it("an object in place of an array, with an example", () => {
    const message = "`tools` must be an array, got an object.";
    expect(() => make({ tools: {} })).toThrow(refused(message, "Pass `[search]`."));
  });

  it("an unknown option, with a suggestion", () => {
    expect(() => make({ maxIter: 4 })).toThrow(refused("no option `maxIter`", "mean maxIters?"));
    expect(() => make({ constructor: 4 })).toThrow(refused("no option `constructor`"));
    expect(() => make({ workspace: "files" })).toThrow(refused("no option `workspace`"));
    expect(() => new ReActAgent(undefined as never)).toThrow(refused("undefined"));
  });

  it.each([
    ["subagents", "Use a HarnessAgent, which has it."],
    ["workspace", "Use a HarnessAgent, which has it."],
    ["instructions", "Use `systemPrompt`."],
    ["maxSteps", "Use `maxIters`."],
    ["maxTokens", "Use `modelOptions.maxOutputTokens`."],
    ["temperature", "Use `modelOptions.temperature`."],
  ])("the option %s of other libraries, with our name for it", (name, hint) => {
    expect(() => make({ [name]: 1 })).toThrow(refused(`no option \`${name}\``, hint));
  });

  it("an unknown option of HarnessAgent", () => {
    const inWorkspace = (options: object) =>
      new HarnessAgent({ name: "lead", model, store: "memory", filesystem: false, ...options });
    expect(() => inWorkspace({ worksapce: "files" })).toThrow(refused("", "mean workspace?"));
    expect(() => inWorkspace({ maxIter: 4 })).toThrow(refused("", "mean maxIters?"));
    expect(() => inWorkspace({ limits: {}, onWarning() {}, parallel: false })).not.toThrow();
  });
});

describe("execution settings", () => {
  const wrong = [
    { timeoutMs: "5s" },
    { timeoutMs: 0 },
    { timeoutMs: Number.NaN },
    { maxAttempts: 0 },
    { maxAttempts: 1.5 },
    { maxAttempts: "3" },
    { initialBackoffMs: -1 },
    { maxBackoffMs: Number.NaN },
    { backoffMultiplier: -2 },
    { jitter: 1.5 },
    { jitter: -0.1 },
    { retryOn: true },
    { timeout: 5_000 },
  ];
  const described = { name: "look", description: "Looks." };
  it.each(wrong)("reject %j at every level", (fields) => {
    const execution = fields as never;
    const [name] = Object.keys(fields) as [string];
    expect(() => make({ execution })).toThrow(refused(name));
    expect(() => make({ modelExecution: execution })).toThrow(refused(name));
    expect(() => tool({ ...described, execution })).toThrow(refused(name));
    expect(() => new Toolkit({ execution })).toThrow(refused(name));
  });

  it.each([-1, "5s", 0, Number.NaN])("reject stallMs: %j", (stallMs) => {
    expect(() => make({ modelExecution: { stallMs } })).toThrow(refused("modelExecution.stallMs"));
  });

  it("allow limits to be switched off", () => {
    const execution = { timeoutMs: null, jitter: 0, initialBackoffMs: 0, retryOn: undefined };
    expect(() =>
      make({ execution, modelExecution: { ...execution, stallMs: null } }),
    ).not.toThrow();
    expect(() => make({ execution: { stallMs: 5 } })).toThrow(refused("no option `stallMs`"));
  });

  it.each(["idempotent", "exclusive", "citable", "needsApproval"])(
    "a tool: %s in words",
    (name) => {
      expect(() => tool({ ...described, [name]: "no" })).toThrow(
        refused(`look: \`${name}\` must be a boolean`),
      );
    },
  );
});

describe("options of a call", () => {
  const agent = make({});
  const wrong: readonly (readonly [object, string, string])[] = [
    [{ userID: "u" }, "has no option `userID`.", "Did you mean userId?"],
    [{ sessionID: "s" }, "has no option `sessionID`.", "Did you mean sessionId?"],
    [{ abortSignal: 1 }, "has no option `abortSignal`.", "Use `signal`."],
    [
      { userId: "" },
      '`userId` must be 1 to 256 characters without control characters, got "".',
      "Pass",
    ],
    [{ onBusy: "wait" }, '`onBusy` must be "queue" or "fail", got "wait".', '"queue" or "fail"'],
    [{ onSuspended: "ask" }, '`onSuspended` must be "fail" or "deny", got "ask".', "Pass"],
    [{ until: "leaf" }, '`until` must be "root" or "tree", got "leaf".', "Pass"],
    [{ signal: {} }, "`signal` must be an AbortSignal, got an object.", "controller.signal"],
    [{ budget: { token: 1 } }, "budget has no option `token`.", "Did you mean tokens?"],
  ];
  it.each(wrong)("rejects %j", async (options, message, hint) => {
    await expect(agent.call("Go.", options)).rejects.toEqual(refused(message, hint));
    expect(() => agent.run("Go.", options)).toThrow(refused(message, hint));
    expect(() => agent.stream("Go.", options)).toThrow(refused(message, hint));
  });

  it("rejects an event type that does not exist", () => {
    const types = ["resaoning"] as never;
    expect(() => agent.stream("Go.", { types })).toThrow(refused("`types[0]` must be "));
  });
});

describe("options of other entries", () => {
  const described = { name: "look", description: "Looks." };
  it.each<[string, () => unknown, string, string]>([
    [
      "a tool",
      () => tool({ ...described, ...{ needApproval: true } }),
      "Tool look has no option `needApproval`.",
      "Did you mean needsApproval?",
    ],
    [
      "a tool with the schema of another library",
      () => tool({ ...described, ...{ inputSchema: {} } }),
      "Tool look has no option `inputSchema`.",
      "Use `input`.",
    ],
    [
      "a toolkit",
      () => new Toolkit({ tool: [] } as object),
      "Toolkit has no option `tool`.",
      "Did you mean tools?",
    ],
    [
      "limits",
      () => new HarnessAgent({ name: "a", model, limits: { maxDepth: 1 } as object }),
      "limits has no option `maxDepth`.",
      "Use any of maxSpawnDepth",
    ],
    [
      "a task runner",
      () => taskRunner({ agents: [make({})], ...{ lostTasks: "resumed" as "resume" } }),
      '`lostTasks` must be "resume" or "fail", got "resumed".',
      'Pass "resume" or "fail".',
    ],
    [
      "model options",
      () => make({ modelOptions: { maxTokens: 5 } }),
      "modelOptions has no option `maxTokens`.",
      "Use `maxOutputTokens`.",
    ],
    [
      "a price",
      () => make({ price: 0.002 }),
      "`price` must be a function, got 0.002.",
      'Pass `(usage, model) => ({ amount: 0.002, currency: "USD" })`.',
    ],
  ])("rejects an unknown option or word of %s", (_, create, message, hint) => {
    expect(create).toThrow(refused(message, hint));
  });
});

describe("hooks", () => {
  const preReasoning = () => undefined;
  it.each<[string, unknown, string]>([
    ["without a name", { preReasoning }, "requires a name"],
    ["with a blank name", { name: " ", preReasoning }, "requires a name"],
    ["that is none", null, "requires a name"],
    [
      "with a point that is no function",
      { name: "one", preReasoning: true },
      "one: `preReasoning` must be",
    ],
    [
      "with a priority in words",
      { name: "one", priority: "high" },
      '`priority` must be a number, got "high"',
    ],
  ])("one %s is refused", (_, hook, message) => {
    expect(() => make({ hooks: [hook] })).toThrow(refused(message));
  });

  it("reject a misspelled hook point with a suggestion", () => {
    const hook = { name: "one", preReasonning: preReasoning };
    const message = "The hook one has no option `preReasonning`.";
    expect(() => make({ hooks: [hook] })).toThrow(refused(message, "mean preReasoning"));
  });

  it("may have their own data and methods", () => {
    class Counting implements Hook {
      readonly name = "counting";
      readonly counts = new Map<string, number>();
      preCall() {
        this.count("call");
      }
      count(what: string) {
        this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
      }
    }
    expect(() => make({ hooks: [new Counting(), { name: "two", seen: [] }] })).not.toThrow();
    const broken = Object.assign(new Counting(), { preCall: 3 });
    expect(() => make({ hooks: [broken] })).toThrow(refused("`preCall` must be a function, got 3"));
  });
});
