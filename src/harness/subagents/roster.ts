import { agentWith, settingsBehind } from "../../agent/settings.ts";
import { joinPermissions } from "../../agent/tool/permission.ts";
import type { Agent } from "../../protocol/agent.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { TaskRef } from "../../protocol/message.ts";
import type { Harness } from "../harness.ts";
import { declaredAgent, generalPurpose, mirrorAgent } from "./child-agent.ts";
import { isLocal, type SubagentDeclaration } from "./declaration.ts";
import { declarationLoader, type LoadedDeclarations } from "./load.ts";

const noFiles: LoadedDeclarations = { declarations: [], problems: [] };

/** How long a child that was made for one key is kept after its last task. */
const idleMs = 10 * 60_000;

/** For whom an agent is needed. */
export interface ForChild {
  readonly agentKey: string;
  readonly task: TaskRef;
  readonly depth: number;
  readonly userId?: string;
}

/** A kind of agent on offer. */
export interface RosterEntry {
  readonly name: string;
  readonly description: string;
  /** What somebody has declared; absent for the one that is always there. */
  readonly declaration?: SubagentDeclaration;
  /** The agent for one child. Settings only, so children share it, unless a factory makes one for each. */
  agentFor(child: ForChild): Promise<Agent>;
}

/** The agents that another one can call on. */
export interface Roster {
  /** All of them, as declared at this moment. */
  entries(): Promise<readonly RosterEntry[]>;
  find(name: string): Promise<RosterEntry | undefined>;
}

/**
 * Merges what there is: the built-in one, declarations in code, files of the workspace, factories. Of two with one name
 * the later counts, with a warning.
 */
export function openRoster(harness: Harness, declared: readonly SubagentDeclaration[]): Roster {
  const { options, workspace, clock, warn } = harness;
  const { subagentRoots: roots = [] } = options;
  const isFactory = (one: SubagentDeclaration) => "create" in one && one.create !== undefined;
  const builtIn: RosterEntry = {
    name: generalPurpose,
    description: "An agent like you, with your tools, for any task that stands on its own.",
    agentFor: once(async () => mirrorAgent(harness)),
  };
  const inCode = declared.filter((one) => !isFactory(one)).map(entryOf);
  const factories = declared.filter(isFactory).map(entryOf);
  const isRead = workspace && options.subagentFiles !== false;
  const load = isRead && declarationLoader(workspace.files, "subagents", { clock, roots });
  let loaded: readonly SubagentDeclaration[] | undefined;
  let merged: readonly RosterEntry[] = [];

  /** An entry for a declaration; the agent behind it is made when it is first needed. */
  function entryOf(declaration: SubagentDeclaration): RosterEntry {
    return { ...declaration, declaration, agentFor: agentMaker(harness, declaration) };
  }

  function merge(...sources: readonly (readonly RosterEntry[])[]): readonly RosterEntry[] {
    const byName = new Map<string, RosterEntry>();
    for (const entry of sources.flat()) {
      const key = entry.name.toLowerCase();
      if (byName.has(key)) warn(`Subagent ${entry.name} is declared twice: the later one counts.`);
      byName.set(key, entry);
    }
    return [...byName.values()];
  }

  async function entries(): Promise<readonly RosterEntry[]> {
    const { declarations, problems } = load ? await load() : noFiles;
    if (declarations === loaded) return merged;
    loaded = declarations;
    for (const { path, reason } of problems) warn(`${path}: ${reason}`);
    merged = merge([builtIn], inCode, declarations.map(entryOf), factories);
    return merged;
  }

  return {
    entries,
    async find(name) {
      const found = (await entries()).filter(
        (entry) => entry.name.toLowerCase() === name.toLowerCase(),
      );
      return found[0];
    },
  };
}

function agentMaker(
  harness: Harness,
  declaration: SubagentDeclaration,
): (child: ForChild) => Promise<Agent> {
  if (isLocal(declaration)) return once(() => declaredAgent(harness, declaration));
  const asDeclared = (agent: Agent) => underDeclaration(agent, declaration);
  if ("agent" in declaration && declaration.agent) {
    const { agent } = declaration;
    return once(async () => asDeclared(agent));
  }
  if ("create" in declaration && declaration.create) {
    const { create } = declaration;
    return keptByKey(harness.clock, async ({ task, depth, userId }) =>
      asDeclared(await create({ task, depth, ...(userId !== undefined && { userId }) })),
    );
  }
  throw new Error(`Subagent ${declaration.name} is of no known kind.`);
}

/** An agent that somebody has brought, with what its declaration says besides. */
function underDeclaration(
  agent: Agent,
  { displayName, permissions, budget }: SubagentDeclaration,
): Agent {
  const own = settingsBehind(agent);
  if (own === undefined) return agent;
  return agentWith(agent, {
    ...(displayName !== undefined && { name: displayName }),
    ...(permissions && { permissions: joinPermissions([own.permissions, permissions]) }),
    ...(budget && { budget: { ...own.budget, ...budget } }),
  });
}

/** Makes a value when it is first asked for; a failure is tried again the next time. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

/** One agent for each key. One that nobody has asked for in a while is let go; asked for again, it is made again. */
function keptByKey(
  clock: Clock,
  make: (child: ForChild) => Promise<Agent>,
): (child: ForChild) => Promise<Agent> {
  const kept = new Map<string, { readonly agent: Promise<Agent>; usedAt: number }>();
  return (child) => {
    const now = clock.now();
    for (const [key, { usedAt }] of kept) if (now - usedAt > idleMs) kept.delete(key);
    const known = kept.get(child.agentKey) ?? { agent: make(child), usedAt: now };
    known.usedAt = now;
    kept.set(child.agentKey, known);
    known.agent.catch(() => kept.delete(child.agentKey));
    return known.agent;
  };
}
