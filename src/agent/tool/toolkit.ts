import { RivuletError } from "../../protocol/error.ts";
import type { Block, Message } from "../../protocol/message.ts";
import { checkExecution } from "../check-execution.ts";
import type { Execution } from "../execution.ts";
import { nearest } from "../nearest.ts";
import { frozenCopy } from "../plain.ts";
import { isCancel } from "../until-cancelled.ts";
import { type ContextValues, ownValues } from "./context.ts";
import { activeGroups, groupsTool, groupsToolName, type ToolGroups } from "./groups.ts";
import { reasonOf } from "./result.ts";
import { definitionOf, type Tool } from "./tool.ts";

/** What a toolkit is made of. */
export interface ToolkitOptions {
  /** Always on offer. */
  readonly tools?: readonly Tool[];
  /** On offer when active; the model switches them with `reset_equipped_tools`. */
  readonly groups?: ToolGroups;
  /** Tools that are not known yet; one with the name of a tool that is known stays hidden, and no two have one name. */
  readonly sources?: readonly ToolSource[];
  /** Called with every chunk that a tool emits; a failing one breaks nothing. */
  readonly onChunk?: (call: ChunkCall, chunk: string | Block) => void;
  readonly execution?: Execution;
  readonly context?: ContextValues;
  /** Fields for the input of a tool, by its name; the model's own come before them. */
  readonly extraInput?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}
/** Tools that come and go while an agent exists, such as those of MCP servers. */
export interface ToolSource {
  /**
   * Brings it up to date: called before a task goes on and before each of its model calls, so it must be cheap when
   * nothing has changed. What it throws fails the task, and so does what the other two throw; the signal's abort only
   * ends the waiting.
   */
  refresh(signal: AbortSignal): Promise<void>;
  /** What it has now. */
  tools(): readonly Tool[];
  /** Whether a tool of this name may be on offer now, wherever it comes from; absent: any may. */
  allows?(name: string): boolean;
}
/** The call that a chunk belongs to. */
export interface ChunkCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

const maxName = 64;
const maxNames = 50;
const noFields = Object.freeze({});

/** A set of tools and what holds for all of them. It keeps no state: what is active is read from the transcript. */
export class Toolkit {
  readonly onChunk: ToolkitOptions["onChunk"];
  readonly execution: Execution;
  readonly context: ContextValues;
  /** By the tool's name. */
  readonly extraInput: NonNullable<ToolkitOptions["extraInput"]>;
  readonly #options: ToolkitOptions;
  readonly #groups: ToolGroups;
  readonly #sources: readonly ToolSource[];
  readonly #always: readonly Tool[];
  readonly #byName: ReadonlyMap<string, Tool>;

  constructor(options: ToolkitOptions = {}) {
    const { tools = [], groups = {}, sources = [], extraInput = {} } = options;
    checkExecution("Toolkit: execution", options.execution);
    this.onChunk = options.onChunk;
    this.execution = frozenCopy(options.execution ?? noFields);
    this.context = ownValues(options.context ?? noFields);
    // Without a prototype, so that a tool named like one of its methods finds nothing there.
    this.extraInput = Object.freeze(Object.assign(Object.create(null), frozenCopy(extraInput)));
    this.#groups = Object.fromEntries(
      Object.entries(groups).map(([name, group]) => [name, { ...group, tools: [...group.tools] }]),
    );
    // What it is made of once more by `with` and `without`.
    this.#options = {
      ...options,
      tools: [...tools],
      groups: this.#groups,
      execution: this.execution,
      context: this.context,
      extraInput: this.extraInput,
    };
    this.#sources = [...sources];
    const hasGroups = Object.keys(groups).length > 0;
    this.#always = Object.freeze(hasGroups ? [...tools, groupsTool(groups)] : [...tools]);
    this.#byName = byName(this.#always, this.#groups);
    Object.freeze(this);
  }

  /** The same toolkit with more tools that are always on offer, and more sources. */
  with(tools: readonly Tool[], sources: readonly ToolSource[] = []): Toolkit {
    return new Toolkit({
      ...this.#options,
      tools: [...(this.#options.tools ?? []), ...tools],
      sources: [...this.#sources, ...sources],
    });
  }

  /** The same toolkit without the tools of these names. */
  without(names: ReadonlySet<string>): Toolkit {
    const isKept = ({ name }: Tool) => !names.has(name);
    const groups = Object.entries(this.#groups).map(
      ([name, group]) => [name, { ...group, tools: group.tools.filter(isKept) }] as const,
    );
    const tools = this.#options.tools?.filter(isKept) ?? [];
    return new Toolkit({ ...this.#options, tools, groups: Object.fromEntries(groups) });
  }

  /** Whether some of its tools come and go. */
  get hasSources(): boolean {
    return this.#sources.length > 0;
  }

  /** Brings the sources up to date. */
  async refresh(signal: AbortSignal): Promise<void> {
    try {
      await Promise.all(this.#sources.map((source) => source.refresh(signal)));
    } catch (error) {
      throw isCancel(signal, error) ? error : sourceFailure(error);
    }
  }

  /** The tool of this name, active or not. */
  find(name: string): Tool | undefined {
    return this.#byName.get(name);
  }

  /** The tools on offer after these messages. */
  active(messages: readonly Message[], agentName: string): readonly Tool[] {
    const known = this.#equipped(messages, agentName);
    if (this.#sources.length === 0) return known;
    try {
      const isAllowed = ({ name }: Tool) =>
        this.#sources.every((source) => source.allows?.(name) ?? true);
      const found = new Map<string, Tool>();
      for (const tool of this.#sources.flatMap((source) => source.tools())) {
        const { name } = definitionOf(tool);
        if (this.#byName.has(name) || !isAllowed(tool)) continue;
        // A source that is given twice has the same tools, and not others of the same names.
        if ((found.get(name) ?? tool) !== tool) throw duplicate(name);
        found.set(name, tool);
      }
      return [...known.filter(isAllowed), ...found.values()];
    } catch (error) {
      throw sourceFailure(error);
    }
  }

  #equipped(messages: readonly Message[], agentName: string): readonly Tool[] {
    if (this.#byName.size === this.#always.length) return this.#always;
    const active = activeGroups(this.#groups, messages, agentName);
    const grouped = [...active].flatMap((group) => this.#groups[group]?.tools ?? []);
    return [...new Set([...this.#always, ...grouped])];
  }

  /** Why a tool is not among those on offer, in words for the model that asked for it. */
  explainMissing(name: string, messages: readonly Message[], agentName: string): string {
    const groups = Object.entries(this.#groups).flatMap(([group, { tools }]) =>
      tools.some((tool) => tool.name === name) ? [group] : [],
    );
    if (groups.length > 0) {
      return `The tool ${name} belongs to ${groups.join(", ")}, which is not active. Activate it with ${groupsToolName} first.`;
    }
    const names = this.active(messages, agentName).map((tool) => tool.name);
    const near = nearest(name, names);
    const advice = near.length > 0 ? ` Did you mean ${near.join(" or ")}?` : "";
    const offer = names.slice(0, maxNames).join(", ") || "none";
    return `There is no tool ${JSON.stringify(name.slice(0, maxName))}.${advice} Tools on offer: ${offer}.`;
  }
}

/** Every tool by its name; a tool may be in several groups, but no name may stand for two tools. */
function byName(always: readonly Tool[], groups: ToolGroups): ReadonlyMap<string, Tool> {
  const tools = new Map<string, Tool>();
  const grouped = new Set(Object.values(groups).flatMap((group) => group.tools));
  for (const tool of [...always, ...grouped]) {
    const { name } = definitionOf(tool); // refuses what is not a tool
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
    hint: "A source that cannot reach its tools should have none, rather than throw.",
  });
}

function duplicate(name: string): RivuletError {
  return new RivuletError("duplicate_tool", `Two tools have the name ${name}.`, {
    hint: 'Rename one; those of an MCP server can have a prefix: connectMcp(server, { prefix: "wiki_" }).',
  });
}
