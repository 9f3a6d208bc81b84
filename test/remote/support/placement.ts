import type { HarnessAgentOptions } from "../../../src/harness/harness.ts";
import { HarnessAgent, type SubagentDeclaration } from "../../../src/index.ts";
import { maxItersOf } from "../../harness/subagents/trees/cast.ts";
import type { Kind } from "../../harness/subagents/trees/plan.ts";
import type { Random } from "../../support/random.ts";

const kinds: readonly Kind[] = ["alpha", "beta", "short"];
const levels = [1, 2, 3] as const;

/** The server of each agent, by its name there; absent for one that runs where its parent runs. */
export type Placement = Readonly<Record<string, string>>;

/** The name of an agent on a server. */
function nameAt(kind: Kind, level: number): string {
  return `${kind}-${level}`;
}

/** Puts some of the agents of a tree on servers. */
export function placeSome(random: Random, urls: readonly string[]): Placement {
  const names = levels.flatMap((level) => kinds.map((kind) => nameAt(kind, level)));
  return Object.fromEntries(
    names.flatMap((name) => (random.chance(0.5) ? [[name, random.pick(urls)] as const] : [])),
  );
}

/** The declarations of a level, some of them on servers; a chain of servers may not lead back to one of `via`. */
export function placedDeclarations(
  placement: Placement,
  token: string,
  level: number,
  via: readonly string[] = [],
): readonly SubagentDeclaration[] {
  return kinds.map((name): SubagentDeclaration => {
    const description = `Does what ${name} does.`;
    const url = placement[nameAt(name, level)];
    if (url !== undefined && !via.includes(url))
      return {
        ...{ name, description, url: `${url}/agents/${nameAt(name, level)}` },
        headers: { authorization: `Bearer ${token}` },
        allowPrivateNetwork: true,
      };
    const maxIters = maxItersOf(name);
    return {
      ...{ name, description },
      ...(maxIters !== undefined && { maxIters }),
      ...(level < 3 && {
        leaf: false,
        subagents: placedDeclarations(placement, token, level + 1, via),
      }),
    };
  });
}

/** The agents that a server has for the trees of others. */
export function agentsOf(
  options: Omit<HarnessAgentOptions, "name">,
  subagents: (level: number) => readonly SubagentDeclaration[],
): readonly HarnessAgent[] {
  return levels.flatMap((level) =>
    kinds.map((kind) => {
      const maxIters = maxItersOf(kind);
      return new HarnessAgent({
        ...options,
        name: nameAt(kind, level),
        ...(maxIters !== undefined && { maxIters }),
        subagents: level < 3 ? subagents(level + 1) : false,
      });
    }),
  );
}
