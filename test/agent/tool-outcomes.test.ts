import { describe, expect, it } from "vitest";
import { z } from "zod";
import { jsonSchema, type ReActAgentOptions, type Tool, Toolkit, tool } from "../../src/index.ts";
import type { ScriptedPart } from "../../src/testing.ts";
import { inShort, runScript } from "./support/run-script.ts";

const anything = jsonSchema<Record<string, unknown>>({ type: "object" });
const echo = tool({
  name: "echo",
  description: "Says it again.",
  input: anything,
  execute: (input) => JSON.stringify(input),
});

/** What one call comes to: for the model, and on the wire. Whatever it is, the run goes on to its end. */
async function outcomeOf(
  call: ScriptedPart,
  tools: readonly Tool[],
  options: Partial<ReActAgentOptions> = {},
) {
  const given = options.toolkit === undefined ? { ...options, tools } : options;
  const played = await runScript([[call], "The end."], given);
  expect(played.reply).toMatchObject({ text: "The end.", generateReason: "model_stop" });
  expect(played.results).toHaveLength(1);
  const [result] = played.results.map(inShort);
  const item = played.output.find(({ type }) => type === "tool_result");
  // The model reads the very same.
  const [, said = ""] = /^\w+: (.*)$/s.exec(result ?? "") ?? [];
  const prompt = JSON.stringify(played.model.calls[1]?.prompt);
  expect(prompt).toContain(JSON.stringify(said).slice(1, -1).slice(0, 200));
  return { result, item, played };
}

function acting(execute: () => unknown, options: Partial<Parameters<typeof tool>[0]> = {}): Tool {
  return tool({ name: "act", description: "Acts.", execute, ...options });
}

describe("the model reads a result for", () => {
  it("a string, and other values as JSON", async () => {
    const text = await outcomeOf({ call: "act" }, [acting(() => "yes")]);
    expect(text.result).toBe("success: yes");
    expect(text.item).toMatchObject({ status: "completed", block_list: [{ text: "yes" }] });
    const json = await outcomeOf({ call: "act" }, [acting(() => ({ a: [1, null] }))]);
    expect(json.result).toBe('success: {"a":[1,null]}');
  });

  it("an unknown tool", async () => {
    const { result, item } = await outcomeOf({ call: "ecko", input: {} }, [echo]);
    expect(result).toMatch(/^error: There is no tool "ecko". Did you mean echo/);
    expect(item).toMatchObject({ status: "failed", error: { code: "unknown_tool" } });
  });

  it("names of Object.prototype, as unknown tools", async () => {
    for (const name of ["constructor", "__proto__", "toString"]) {
      const { result } = await outcomeOf({ call: name }, [echo]);
      expect(result).toContain("There is no tool");
    }
  });

  it("a tool of an inactive group, also an external tool", async () => {
    const inside = acting(() => "no");
    const outside = tool({ name: "outside", description: "Runs elsewhere." });
    const group = { description: "More.", tools: [inside, outside] };
    for (const call of ["act", "outside"]) {
      const toolkit = new Toolkit({ groups: { more: group } });
      const { result } = await outcomeOf({ call }, [], { toolkit });
      expect(result).toBe(
        `error: The tool ${call} belongs to more, which is not active. Activate it with reset_equipped_tools first.`,
      );
    }
  });

  it("invalid arguments, with path and problem", async () => {
    const input = z.object({ to: z.object({ city: z.string() }), days: z.number().int() });
    const book = tool({ name: "book", description: "Books.", input, execute: () => "booked" });
    const wrong = { to: { city: 7 }, days: 1.5 };
    const { result, item } = await outcomeOf({ call: "book", input: wrong }, [book]);
    expect(result).toMatch(/^error: The arguments for book are invalid:\n- to\.city: .*\n- days: /);
    expect(item).toMatchObject({ status: "failed", error: { code: "invalid_arguments" } });
    const outside = tool({ name: "book", description: "Books elsewhere.", input });
    const external = await outcomeOf({ call: "book", input: wrong }, [outside]);
    expect(external.result).toBe(result); // before anybody is asked to run it
  });

  it("null on an unknown field, but not on an optional field", async () => {
    const input = z.strictObject({ city: z.string(), days: z.number().optional() });
    const book = tool({ name: "book", description: "Books.", input, execute: (it) => it });
    const fine = { call: "book", input: { city: "Rome", days: null } };
    expect((await outcomeOf(fine, [book])).result).toBe('success: {"city":"Rome"}');
    const unknown = { call: "book", input: { city: "Rome", nights: null } };
    expect((await outcomeOf(unknown, [book])).result).toMatch(/^error: .*nights/s);
  });

  it("arguments that are not JSON", async () => {
    const { result, item } = await outcomeOf({ call: "echo", raw: '{"a": ' }, [echo]);
    expect(result).toMatch(/^error: .*not valid JSON/s);
    expect(item).toMatchObject({ error: { code: "invalid_arguments" } });
    expect((await outcomeOf({ call: "echo", raw: "[1]" }, [echo])).result).toContain("an array");
    expect((await outcomeOf({ call: "echo", raw: "" }, [echo])).result).toBe("success: {}");
  });

  it("arguments with __proto__ or constructor", async () => {
    for (const raw of [
      '{"__proto__": {"admin": true}}',
      '{"a": [{"constructor": {"prototype": {"admin": true}}}]}',
      '{"prototype": 1}',
    ]) {
      const { result } = await outcomeOf({ call: "echo", raw }, [echo]);
      expect(result).toMatch(/^error: .*is not allowed/s);
    }
    expect(({} as { admin?: unknown }).admin).toBeUndefined();
  });

  it("arguments nested too deeply", async () => {
    const nested = (depth: number) => `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    expect((await outcomeOf({ call: "echo", raw: nested(63) }, [echo])).result).toMatch(/^success/);
    for (const depth of [64, 1_000, 100_000]) {
      const { result } = await outcomeOf({ call: "echo", raw: nested(depth) }, [echo]);
      expect(result).toMatch(/^error: .*deeper than 64/s);
    }
  });

  it("arguments of more than a megabyte", async () => {
    const text = "x".repeat(1_000_001);
    const large = await outcomeOf({ call: "echo", input: { text } }, [echo]);
    expect(large.result).toMatch(/^error: .*larger than 1,000,000 bytes/s);
    const many = { list: Array<number>(300_000).fill(1) };
    expect((await outcomeOf({ call: "echo", input: many }, [echo])).result).toMatch(/^error/);
  });

  it("presets, which override the model's arguments, and extra input, which does not", async () => {
    const kept = tool({
      name: "echo",
      description: "Says it again.",
      input: z.object({ a: z.string().default("a0"), b: z.string(), c: z.string() }),
      preset: { c: "preset" },
      execute: (input) => input,
    });
    const toolkit = new Toolkit({
      tools: [kept],
      extraInput: { echo: { a: "extra", b: "extra" } },
    });
    const call = { call: "echo", input: { b: "model", c: "model" } };
    const { result, played } = await outcomeOf(call, [], { toolkit });
    expect(result).toBe('success: {"a":"extra","b":"model","c":"preset"}');
    const [seen] = played.model.calls[0]?.tools ?? [];
    expect(
      Object.keys((seen as { inputSchema: { properties: object } }).inputSchema.properties),
    ).toEqual(["a", "b"]);
  });

  it.each([
    ["an error", new Error("disk full"), "disk full"],
    ["a string", "disk full", "disk full"],
    ["nothing", undefined, "undefined was thrown"],
    [
      "something that cannot be read",
      {
        get message() {
          throw new Error("no");
        },
      },
      "cannot be read",
    ],
  ])("a tool that throws %s", async (_, thrown, said) => {
    const throwing = acting(() => {
      throw thrown;
    });
    const { result, item } = await outcomeOf({ call: "act" }, [throwing]);
    expect(result).toMatch(new RegExp(`^error: Tool execution failed: .*${said}`));
    expect(item).toMatchObject({ status: "failed", error: { code: "tool_failed" } });
  });

  it("a timeout; the tool's limit overrides the toolkit's and the agent's", async () => {
    const hanging = (timeoutMs?: number) =>
      acting(() => new Promise(() => {}), timeoutMs ? { execution: { timeoutMs } } : {});
    const { result, item } = await outcomeOf({ call: "act" }, [hanging(20)]);
    expect(result).toBe("error: Tool execution timeout after 0.02s");
    expect(item).toMatchObject({ status: "failed", error: { code: "tool_timeout" } });
    const toolkit = new Toolkit({ tools: [hanging()], execution: { timeoutMs: 30 } });
    const other = await outcomeOf({ call: "act" }, [], { toolkit, execution: { timeoutMs: 40 } });
    expect(other.result).toBe("error: Tool execution timeout after 0.03s");
  });

  it("a tool that returns nothing", async () => {
    for (const nothing of [undefined, "", [], "  "]) {
      const { result, item } = await outcomeOf({ call: "act" }, [acting(() => nothing)]);
      expect(result).toBe("success: (no output)");
      expect(item).toMatchObject({ status: "completed" });
    }
  });

  it("a tool whose result is not JSON", async () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    for (const value of [cyclic, 10n, () => 1, Symbol("x"), new Map([[1, 2]])]) {
      const { result, item } = await outcomeOf({ call: "act" }, [acting(() => value)]);
      expect(result).toMatch(/^error: Tool execution failed: its result is not JSON/);
      expect(item).toMatchObject({ status: "failed", error: { code: "invalid_result" } });
    }
  });

  it("a result that is too long, with head and tail", async () => {
    const long = `begin${"x".repeat(200_000)}end`;
    const { result } = await outcomeOf({ call: "act" }, [acting(() => long)]);
    expect(result?.length).toBeLessThan(80_100);
    expect(result).toMatch(/^success: begin.*characters left out.*end$/s);
  });

  it("an approval request that fails, without failing the run", async () => {
    const broken = acting(() => "no", {
      needsApproval: () => {
        throw new Error("who knows");
      },
    });
    const { result } = await outcomeOf({ call: "act" }, [broken]);
    expect(result).toMatch(/^error: .*who knows/);
  });

  it("a deny rule", async () => {
    const permissions = { deny: [{ tool: "echo", input: { path: "/etc/*" } }] };
    const bad = { call: "echo", input: { path: "/etc/passwd" } };
    const { result, item } = await outcomeOf(bad, [echo], { permissions });
    expect(result).toBe("denied: A rule forbids echo with this input.");
    expect(item).toMatchObject({ status: "failed", error: { code: "denied" } });
    const good = { call: "echo", input: { path: "/tmp/x" } };
    expect((await outcomeOf(good, [echo], { permissions })).result).toMatch(/^success/);
  });
});

describe("a batch", () => {
  const steps: string[] = [];
  const stepping = (name: string, options: Partial<Parameters<typeof tool>[0]> = {}) =>
    tool({
      name,
      description: "Steps.",
      async execute(_, { callId }) {
        steps.push(`${name} begins`);
        await new Promise((resolve) => setTimeout(resolve, name === "slow" ? 15 : 5));
        steps.push(`${name} ends`);
        return callId;
      },
      ...options,
    });
  const tools = [stepping("slow"), stepping("fast"), stepping("alone", { exclusive: true })];
  const calls = [{ call: "slow" }, { call: "fast" }, { call: "alone" }, { call: "fast" }];

  it("runs in parallel, and exclusive calls alone in their place", async () => {
    steps.length = 0;
    const { results, events } = await runScript([calls, "done"], { tools });
    expect(steps).toEqual([
      "slow begins",
      "fast begins",
      "fast ends",
      "slow ends",
      "alone begins",
      "alone ends",
      "fast begins",
      "fast ends",
    ]);
    expect(results.map(({ name }) => name)).toEqual(["fast", "slow", "alone", "fast"]);
    // All are opened in the order of the calls, and each ends when it is done.
    const seen = events.flatMap((event) => {
      if (event.type === "task.output_item.added" && event.item.type === "tool_result") {
        return [`open ${event.output_index}`];
      }
      const isResult = event.type === "task.output_item.done" && event.item.type === "tool_result";
      return isResult ? [`done ${event.output_index}`] : [];
    });
    expect(seen).toEqual([
      "open 4",
      "open 5",
      "open 6",
      "open 7",
      "done 5",
      "done 4",
      "done 6",
      "done 7",
    ]);
  });

  it("runs in sequence with parallel: false", async () => {
    steps.length = 0;
    const { results } = await runScript([calls, "done"], { tools, parallel: false });
    expect(steps.filter((_, index) => index % 2 === 0).map((step) => step.split(" ")[0])).toEqual([
      "slow",
      "fast",
      "alone",
      "fast",
    ]);
    expect(results.map(({ name }) => name)).toEqual(["slow", "fast", "alone", "fast"]);
  });

  it("shows the model its results in the order of the calls", async () => {
    const { model, messages } = await runScript([calls, "done"], { tools });
    const asked = messages.flatMap(({ content }) =>
      content.flatMap((block) => (block.type === "tool_use" ? [block.providerCallId] : [])),
    );
    const answered = model.calls[1]?.prompt.flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => (part.type === "tool-result" ? [part.toolCallId] : []))
        : [],
    );
    expect(answered).toEqual(asked);
  });
});

describe("a retried tool", () => {
  it("has the same call id on every attempt and counts attempts", async () => {
    const attempts: [string, number][] = [];
    const flaky = tool({
      name: "flaky",
      description: "Fails twice.",
      idempotent: true,
      execution: { initialBackoffMs: 1, jitter: 0 },
      execute(_, { callId, attempt }) {
        attempts.push([callId, attempt]);
        if (attempt < 3) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
        return "at last";
      },
    });
    const { results } = await runScript([[{ call: "flaky" }], "done"], { tools: [flaky] });
    const [{ id = "" } = {}] = results;
    expect(attempts).toEqual([
      [id, 1],
      [id, 2],
      [id, 3],
    ]);
    expect(results.map(inShort)).toEqual(["success: at last"]);
  });

  it("is not retried by default", async () => {
    let count = 0;
    const once = acting(() => {
      count++;
      throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
    });
    await runScript([[{ call: "act" }], "done"], { tools: [once] });
    expect(count).toBe(1);
  });
});
