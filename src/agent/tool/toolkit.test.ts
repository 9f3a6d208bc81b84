import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Block, Message, ToolResultState } from "../../contract/message.ts";
import { readArguments } from "./arguments.ts";
import type { ToolContext } from "./context.ts";
import { definitionOf, type Tool, tool } from "./tool.ts";
import { Toolkit, type ToolSource } from "./toolkit.ts";

const make = (name: string) => tool({ name, description: `Does ${name}.`, execute: () => name });
const [now, browse, click, query] = ["now", "browse", "click", "query"].map(make) as [
  Tool,
  Tool,
  Tool,
  Tool,
];
const toolkit = new Toolkit({
  tools: [now],
  groups: {
    web: { description: "For pages.", tools: [browse, click] },
    data: { description: "For tables.", tools: [query], active: true },
  },
});
const names = (tools: readonly Tool[]) => tools.map(({ name }) => name);
const reset = "reset_equipped_tools";

let ids = 0;
const message = (role: Message["role"], name: string, ...content: Block[]): Message => ({
  id: `msg_${ids++}`,
  role,
  name,
  content,
});
/** A call that selects groups, with its answer and result. */
function chose(
  groups: readonly string[],
  options: { state?: ToolResultState; agent?: string; edited?: readonly string[] | null } = {},
): readonly Message[] {
  const { state = "success", agent = "lead", edited } = options;
  const id = `call_${ids++}`;
  const ran = edited === null ? null : { name: reset, input: { groups: edited } };
  const metadata = edited !== undefined && { metadata: { ran } };
  return [
    message("assistant", agent, { type: "tool_use", id, name: reset, input: { groups } }),
    message("tool", agent, {
      type: "tool_result",
      id,
      name: reset,
      output: [],
      state,
      ...metadata,
    }),
  ];
}
const active = (...messages: readonly (readonly Message[])[]) =>
  names(toolkit.active(messages.flat(), "lead"));

describe("a toolkit", () => {
  it("finds its tools, active or not", () => {
    expect(toolkit.find("now")).toBe(now);
    expect(toolkit.find("click")).toBe(click);
    expect(toolkit.find("constructor")).toBeUndefined();
  });

  it("is frozen", () => {
    expect(Object.isFrozen(toolkit)).toBe(true);
  });

  it("is independent of later changes to its options", () => {
    const tools = [now];
    const kit = new Toolkit({ tools });
    tools.push(query);
    expect(names(kit.active([], "lead"))).toEqual(["now"]);
  });

  it("with() returns a toolkit with more tools", () => {
    expect(names(new Toolkit({ tools: [now] }).with([query]).active([], "a"))).toEqual([
      "now",
      "query",
    ]);
    expect(() => toolkit.with([browse])).toThrow(
      expect.objectContaining({ code: "duplicate_tool" }),
    );
  });

  it("without() returns a toolkit without tools, also in groups", () => {
    const kit = toolkit.without(new Set(["now", "click"]));
    expect([kit.find("now"), kit.find("click")]).toEqual([undefined, undefined]);
    expect(kit.find("browse")).toBe(browse);
    expect(names(kit.with([make("now")]).active([], "a"))).toEqual(["now", reset, "query"]);
    expect(toolkit.find("now")).toBe(now);
  });

  it("keeps its common settings", () => {
    const kit = new Toolkit({
      execution: { timeoutMs: 5 },
      context: { a: 1 },
      extraInput: { now: { b: 2 } },
    });
    expect(kit).toMatchObject({ execution: { timeoutMs: 5 }, context: { a: 1 } });
    expect(kit.extraInput.now).toEqual({ b: 2 });
    expect(kit.extraInput.constructor).toBeUndefined();
  });

  it.each([
    ["twice in the list", () => new Toolkit({ tools: [now, make("now")] })],
    ["the same twice in the list", () => new Toolkit({ tools: [now, now] })],
    [
      "in the list and in a group",
      () => new Toolkit({ tools: [now], groups: { a: { description: "A.", tools: [now] } } }),
    ],
    [
      "different ones in two groups",
      () =>
        new Toolkit({
          groups: {
            a: { description: "A.", tools: [now] },
            b: { description: "B.", tools: [make("now")] },
          },
        }),
    ],
    [
      "the name of the tool that switches groups",
      () =>
        new Toolkit({ tools: [make(reset)], groups: { a: { description: "A.", tools: [now] } } }),
    ],
  ])("rejects a duplicate name %s", (_, build) => {
    expect(build).toThrow(expect.objectContaining({ code: "duplicate_tool" }));
  });

  it("rejects a value that is not a tool", () => {
    expect(() => new Toolkit({ tools: [{ ...now }] })).toThrow(
      expect.objectContaining({ code: "invalid_tool" }),
    );
  });
});

describe("groups", () => {
  it("are active as declared at first", () => {
    expect(active()).toEqual(["now", reset, "query"]);
  });

  it("without any there is no tool to select them", () => {
    expect(new Toolkit({ tools: [now] }).find(reset)).toBeUndefined();
  });

  it("are replaced by the last successful call", () => {
    expect(active(chose(["web"]))).toEqual(["now", reset, "browse", "click"]);
    expect(active(chose(["web", "data"]))).toEqual(["now", reset, "browse", "click", "query"]);
    expect(active(chose(["web"]), chose([]))).toEqual(["now", reset]);
    expect(active(chose(["web"]), chose(["data"]))).toEqual(["now", reset, "query"]);
  });

  it("are not changed by a call that failed, was denied or has no result", () => {
    const [call = message("assistant", "lead")] = chose(["data"]);
    expect(active(chose(["web"]), [call])).toContain("browse");
    for (const state of ["error", "denied", "interrupted"] as const) {
      expect(active(chose(["web"]), chose(["data"], { state }))).toContain("browse");
    }
  });

  it("follow the call as it ran, and ignore calls that did not run", () => {
    expect(active(chose(["data"], { edited: ["web"] }))).toContain("browse");
    expect(active(chose(["web"], { edited: null }))).not.toContain("browse");
  });

  it("are separate for each agent", () => {
    expect(active(chose(["web"], { agent: "other" }))).not.toContain("browse");
  });

  it("that no longer exist are ignored", () => {
    expect(active(chose(["web", "gone"]))).toEqual(["now", reset, "browse", "click"]);
  });

  it("offers a tool of two groups once, when either is active", () => {
    const shared = new Toolkit({
      groups: {
        a: { description: "A.", tools: [now], active: true },
        b: { description: "B.", tools: [now], active: true },
      },
    });
    expect(names(shared.active([], "lead"))).toEqual([reset, "now"]);
    expect(names(shared.active(chose(["b"]), "lead"))).toEqual([reset, "now"]);
    expect(names(shared.active(chose([]), "lead"))).toEqual([reset]);
  });
});

describe("the tool that selects groups", () => {
  const meta = toolkit.find(reset) as Tool;
  const definition = definitionOf(meta);
  const call = (groups: readonly string[]) => definition.execute?.({ groups }, {} as ToolContext);

  it("describes the groups to the model", () => {
    expect(meta.description).toContain("- web: For pages.");
    expect(meta.inputSchema).toMatchObject({
      properties: { groups: { items: { enum: ["web", "data"] } } },
      required: ["groups"],
    });
  });

  it("returns the active groups with their descriptions", () => {
    expect(call(["web"])).toBe(
      "Active groups of tools now:\n- web: For pages. Tools: browse, click.",
    );
    expect(call([])).toBe("No group of tools is active now.");
  });

  it("rejects an unknown group", async () => {
    const answer = await readArguments(definition, { input: { groups: ["web", "webb"] } });
    expect(answer).toMatchObject({
      ok: false,
      message: expect.stringMatching(/groups\[1\]: .*"web","data"/),
    });
  });

  it("is exclusive, because other calls depend on it", () => {
    expect(definition.exclusive).toBe(true);
  });
});

describe("explainMissing", () => {
  it("names the inactive group of a tool", () => {
    expect(toolkit.explainMissing("click", [], "lead")).toBe(
      "The tool click belongs to web, which is not active. Activate it with reset_equipped_tools first.",
    );
  });

  it.each([
    ["get_wether", /Did you mean get_weather\?/],
    ["weather", /Did you mean get_weather\?/],
    ["GET_WEATHER", /Did you mean get_weather\?/],
    ["launch_rocket", /^There is no tool "launch_rocket"\. Available tools: get_weather, now\.$/],
    ["", /^There is no tool ""\. Available tools/],
  ])("suggests similar tools: %s", (name, words) => {
    const kit = new Toolkit({ tools: [make("get_weather"), now] });
    expect(kit.explainMissing(name, [], "lead")).toMatch(words);
  });

  it("is short, however many tools there are and however long the name is", () => {
    const many = new Toolkit({
      tools: Array.from({ length: 500 }, (_, index) => make(`tool_${index}`)),
    });
    expect(many.explainMissing("x".repeat(1_000_000), [], "lead").length).toBeLessThan(1_000);
    expect(new Toolkit().explainMissing("a", [], "lead")).toContain("Available tools: none.");
  });
});

describe("a source", () => {
  const { signal } = new AbortController();
  function sourceOf(...made: readonly Tool[]) {
    const state = { tools: [] as readonly Tool[], denied: "" };
    const source: ToolSource = {
      async refresh() {
        state.tools = made;
      },
      tools: () => state.tools,
      allows: (name) => name !== state.denied,
    };
    return { source, state };
  }

  it("offers its tools after a refresh, behind the others", async () => {
    const { source } = sourceOf(make("later"));
    const kit = toolkit.with([], [source]);
    expect(names(kit.active([], "lead"))).toEqual(["now", reset, "query"]);
    await kit.refresh(signal);
    expect(names(kit.active([], "lead"))).toEqual(["now", reset, "query", "later"]);
    expect(kit.explainMissing("latter", [], "lead")).toContain("Did you mean later?");
  });

  it("never hides a tool of the toolkit, active or not", async () => {
    const first = make("later");
    const kit = toolkit.with([], [sourceOf(first, make("now"), make("click")).source]);
    await kit.refresh(signal);
    const offered = kit.active([], "lead");
    expect(names(offered)).toEqual(["now", reset, "query", "later"]);
    expect(offered[0]).toBe(now);
    expect(offered[3]).toBe(first);
  });

  it("hides a tool of a later source with the same name, and warns once", async () => {
    const warn = vi.spyOn(process, "emitWarning").mockReturnValue();
    onTestFinished(() => warn.mockRestore());
    const first = make("later");
    const one = sourceOf(first);
    const other = sourceOf(make("search"), make("later"));
    const kit = toolkit.with([], [one.source, other.source]);
    await kit.refresh(signal);
    for (const offered of [kit.active([], "lead"), kit.active([], "lead")]) {
      expect(names(offered)).toEqual(["now", reset, "query", "later", "search"]);
      expect(offered).toContain(first);
    }
    expect(warn.mock.calls.map(String)).toEqual([expect.stringContaining("a tool later;")]);
    const mine = make("later");
    expect(kit.with([mine]).active([], "lead")).toContain(mine);
  });

  it("may be passed twice", async () => {
    const { source } = sourceOf(make("later"));
    const kit = toolkit.with([], [source, source]);
    await kit.refresh(signal);
    expect(names(kit.active([], "lead"))).toEqual(["now", reset, "query", "later"]);
  });

  it("may forbid any tool", async () => {
    const { source, state } = sourceOf(make("later"));
    const kit = toolkit.with([], [source]);
    await kit.refresh(signal);
    state.denied = "query";
    expect(names(kit.active([], "lead"))).toEqual(["now", reset, "later"]);
  });
});
