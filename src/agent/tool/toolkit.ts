import { RivuletError, reasonOf } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Field, type Fields, nearest, readArgument, readOptions } from "../../base/options.ts";
import { frozenCopy } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import { allDone, isCancel, isThenable } from "../../base/time.ts";
import type { Message, ToolCall, ToolChunk, ToolUseBlock } from "../../contract/index.ts";
import { type Execution, executionField } from "../base/execution.ts";
import { groupTexts, toolErrors } from "../base/prompts.ts";
import { type ContextValues, contextField, ownValues } from "./context.ts";
import { type RanCall, ranCall } from "./result.ts";
import { jsonSchema } from "./schema.ts";
import { definitionOf, type Tool, tool, toolsField } from "./tool.ts";

/** Tools that are switched on and off together. */
export interface ToolGroup {
  /** Tells the model what the tools are for and how to use them. */
  readonly description: string;
  readonly tools: readonly Tool[];
  /** Whether the group is active before the model has chosen. */
  readonly active?: boolean;
}
/** Groups by name. */
export type ToolGroups = Readonly<Record<string, ToolGroup>>;

/** The options of a toolkit. */
export interface ToolkitOptions {
  /** Tools that are always available. */
  readonly tools?: readonly Tool[];
  /** Tools that are available while their group is active; the model selects groups with `reset_equipped_tools`. */
  readonly groups?: ToolGroups;
  /** Tools that change at run time; a tool of the toolkit, or of an earlier source, hides one with the same name. */
  readonly sources?: readonly ToolSource[];
  /** Called with every chunk that a tool emits; its errors are ignored. */
  readonly onChunk?: (call: ToolCall, chunk: ToolChunk) => void;
  readonly execution?: Execution;
  readonly context?: ContextValues;
  /** Default input fields by tool name; fields that the model sends take precedence. */
  readonly extraInput?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}
/** Tools that change while an agent exists, such as those of MCP servers. */
export interface ToolSource {
  /** Updates the tools; called before each step, so it must be cheap without changes. An error fails the task. */
  refresh(signal: AbortSignal): Awaitable<void>;
  /** The current tools. */
  tools(): readonly Tool[];
  /** Whether a tool of this name, from any origin, may be available now; absent: always. */
  readonly allows?: ((name: string) => boolean) | undefined;
}
const groupsToolName = "reset_equipped_tools";
const maxName = 64;
const maxNames = 50;
const noFields = Object.freeze({});
const groupFields: Fields<ToolGroup> = {
  description: is.required(is.text),
  tools: is.required(toolsField),
  active: is.flag,
};
/** The rule for tool sources. */
export const sourcesField = is.listOf(is.withFunctions("refresh", "tools"));
const toolkitFields: Fields<ToolkitOptions> = {
  tools: toolsField,
  groups: is.recordOf(is.options(groupFields)),
  sources: sourcesField,
  onChunk: is.callback,
  execution: executionField,
  context: contextField,
  extraInput: is.recordOf(is.data),
};

/** A set of tools and their common settings; stateless, because the transcript tells which groups are active. */
export class Toolkit {
  readonly onChunk: ToolkitOptions["onChunk"];
  readonly execution: Execution;
  readonly context: ContextValues;
  readonly extraInput: NonNullable<ToolkitOptions["extraInput"]>;
  readonly #tools: readonly Tool[];
  readonly #groups: ToolGroups;
  readonly #sources: readonly ToolSource[];
  readonly #always: readonly Tool[];
  readonly #byName: ReadonlyMap<string, Tool>;
  readonly #hidden = new Set<string>();

  constructor(given: ToolkitOptions = {}) {
    const options = readOptions("Toolkit", given, toolkitFields, "Toolkit: ");
    const { tools = [], groups = {}, sources = [], extraInput = {} } = options;
    this.onChunk = options.onChunk;
    this.execution = frozenCopy(options.execution ?? noFields);
    this.context = ownValues(options.context ?? noFields);
    // Without a prototype, so that a tool named "toString" has no extra input.
    this.extraInput = Object.freeze(Object.assign(Object.create(null), frozenCopy(extraInput)));
    this.#groups = Object.fromEntries(
      Object.entries(groups).map(([name, group]) => [name, { ...group, tools: [...group.tools] }]),
    );
    this.#tools = [...tools];
    this.#sources = [...sources];
    const hasGroups = Object.keys(groups).length > 0;
    this.#always = Object.freeze(hasGroups ? [...tools, groupsTool(groups)] : [...tools]);
    this.#byName = byName(this.#always, this.#groups);
    Object.freeze(this);
  }

  /** A copy with more tools and sources. */
  with(tools: readonly Tool[], sources: readonly ToolSource[] = []): Toolkit {
    readArgument("tools", tools, is.required(is.list));
    readArgument("sources", sources, sourcesField);
    return this.#copy([...this.#tools, ...tools], this.#groups, [...this.#sources, ...sources]);
  }

  /** A copy without the tools of these names. */
  without(names: ReadonlySet<string>): Toolkit {
    const isKept = ({ name }: Tool) => !names.has(name);
    const groups = Object.entries(this.#groups).map(
      ([name, group]) => [name, { ...group, tools: group.tools.filter(isKept) }] as const,
    );
    return this.#copy(this.#tools.filter(isKept), Object.fromEntries(groups), this.#sources);
  }

  #copy(tools: readonly Tool[], groups: ToolGroups, sources: readonly ToolSource[]): Toolkit {
    const { execution, context, extraInput, onChunk } = this;
    const common = { execution, context, extraInput, ...(onChunk && { onChunk }) };
    return new Toolkit({ ...common, tools, groups, sources });
  }

  /** The names of all tools, active or not, and of the current tools of the sources. */
  get names(): readonly string[] {
    const found = this.#sources.flatMap((source) => source.tools());
    return [...this.#byName.keys(), ...found.map(({ name }) => name)];
  }

  /** Whether the model selects some of the tools by group. */
  get hasGroups(): boolean {
    return this.#byName.size > this.#always.length;
  }

  /** Whether the toolkit has sources. */
  get hasSources(): boolean {
    return this.#sources.length > 0;
  }

  /** Updates the sources. */
  refresh(signal: AbortSignal): Awaitable<void> {
    const fail = (error: unknown): never => {
      throw isCancel(signal, error) ? error : sourceFailure(error);
    };
    try {
      const refreshed = allDone(this.#sources.map((source) => source.refresh(signal)));
      return isThenable(refreshed) ? refreshed.then(() => {}, fail) : undefined;
    } catch (error) {
      return fail(error);
    }
  }

  /** The tool of this name, active or not. */
  find(name: string): Tool | undefined {
    return this.#byName.get(name);
  }

  /** The tools that are available after these messages. */
  active(messages: readonly Message[], agentName: string): readonly Tool[] {
    const equipped = this.#equipped(messages, agentName);
    if (this.#sources.length === 0) return equipped;
    try {
      const isAllowed = this.#rule();
      const found = new Map<string, Tool>();
      for (const tool of this.#sources.flatMap((source) => source.tools())) {
        const { name } = definitionOf(tool);
        if (this.#byName.has(name) || isAllowed?.(tool) === false) continue;
        // A server chooses its names and must not be able to fail the agent. The same source may be passed twice.
        if ((found.get(name) ?? tool) !== tool) this.#warnHidden(name);
        else found.set(name, tool);
      }
      const own = isAllowed ? equipped.filter(isAllowed) : equipped;
      return found.size === 0 ? own : [...own, ...found.values()];
    } catch (error) {
      throw sourceFailure(error);
    }
  }

  /** Whether the sources allow a tool; undefined if they allow all. */
  #rule(): ((tool: Tool) => boolean) | undefined {
    const limiting = this.#sources.filter((source) => source.allows);
    if (limiting.length === 0) return undefined;
    return ({ name }) => limiting.every((source) => source.allows?.(name) ?? true);
  }

  #warnHidden(name: string): void {
    if (this.#hidden.has(name)) return;
    this.#hidden.add(name);
    const message = `Two tool sources have a tool ${name}; only the first is offered. Give the MCP servers different prefixes.`;
    process.emitWarning(message, "RivuletWarning");
  }

  #equipped(messages: readonly Message[], agentName: string): readonly Tool[] {
    if (!this.hasGroups) return this.#always;
    const chosen = lastChoice(messages, agentName);
    const grouped = Object.entries(this.#groups).flatMap(([name, { active = false, tools }]) =>
      (chosen?.has(name) ?? active) ? tools : [],
    );
    return [...new Set([...this.#always, ...grouped])];
  }

  /** Tells the model why a tool is not available. */
  explainMissing(name: string, messages: readonly Message[], agentName: string): string {
    const groups = Object.entries(this.#groups).flatMap(([group, { tools }]) =>
      tools.some((tool) => tool.name === name) ? [group] : [],
    );
    if (groups.length > 0) return toolErrors.inactive(name, groups, groupsToolName);
    const names = this.active(messages, agentName).map((tool) => tool.name);
    const available = names.slice(0, maxNames);
    return toolErrors.unknown(name.slice(0, maxName), nearest(name, names), available);
  }
}

/** The rule for a toolkit. */
export const toolkitField: Field = {
  fits: (value) => value instanceof Toolkit,
  expected: "a Toolkit",
  example: "new Toolkit({ tools: [search] })",
};

/** All tools by name; a tool may be in several groups, but two tools cannot share a name. */
function byName(always: readonly Tool[], groups: ToolGroups): ReadonlyMap<string, Tool> {
  const tools = new Map<string, Tool>();
  const grouped = new Set(Object.values(groups).flatMap((group) => group.tools));
  for (const tool of [...always, ...grouped]) {
    const { name } = definitionOf(tool); // throws if it is not a tool
    if (tools.has(name)) throw duplicate(name);
    tools.set(name, tool);
  }
  return tools;
}

function sourceFailure(error: unknown): RivuletError {
  if (error instanceof RivuletError) return error;
  const message = `A tool source failed: ${reasonOf(error)}`;
  return new RivuletError("tool_source_failed", message, {
    cause: error,
    hint: "Return no tools from a source that cannot reach them, instead of throwing.",
  });
}

function duplicate(name: string): RivuletError {
  return new RivuletError("duplicate_tool", `Two tools have the name ${name}.`, {
    hint: "Rename one of them.",
  });
}

/** The tool with which the model selects its groups; its input replaces the active groups. */
function groupsTool(groups: ToolGroups): Tool {
  return tool({
    name: groupsToolName,
    description: groupTexts.description(groups),
    input: jsonSchema<{ groups: readonly string[] }>({
      type: "object",
      properties: { groups: { type: "array", items: { enum: Object.keys(groups) } } },
      required: ["groups"],
      additionalProperties: false,
    }),
    idempotent: true,
    exclusive: true,
    readOnly: true,
    execute: ({ groups: chosen }) => groupTexts.active(groups, chosen),
  });
}

function lastChoice(
  messages: readonly Message[],
  agentName: string,
): ReadonlySet<string> | undefined {
  const sent = new Map<string, ToolUseBlock>();
  let last: RanCall | undefined;
  for (const { role, name, content } of messages) {
    const isOwn = role === "assistant" && name === agentName;
    for (const block of content) {
      if (block.type === "tool_use" && isOwn) sent.set(block.id, block);
      if (block.type !== "tool_result" || block.state !== "success") continue;
      const call = sent.get(block.id);
      const ran = call && ranCall(call, block);
      if (ran?.name === groupsToolName) last = ran;
    }
  }
  const { groups } = (last?.input ?? {}) as { groups?: unknown };
  return Array.isArray(groups) ? new Set(groups) : undefined;
}
