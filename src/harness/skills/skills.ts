import type { Clock } from "../../base/clock.ts";
import type { Awaitable } from "../../base/time.ts";
import { whenDone } from "../../base/time.ts";
import type {
  ActingVerdict,
  Hook,
  HookContext,
  ModelCall,
  ToolCall,
} from "../../contract/index.ts";
import { rulesBehind } from "../filesystem/file-rules.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { oneLine, skillErrors, skillsPrompt } from "../prompts.ts";
import { loadSkillName, loadSkillTool } from "../tools/skills.ts";
import { isAllowedBySkills } from "./allowed-tools.ts";
import { type LoadedSkills, skillLoader, visibleSkills } from "./load.ts";
import { loadsIn } from "./loads.ts";
import type { Skill } from "./skill.ts";

/** The skills that an agent offers to its model. */
export interface Skills {
  list(): Awaitable<readonly Skill[]>;
  /** Lists the skills in the system prompt, loads them, and keeps tasks within the tools of the skills they use. */
  readonly hook: Hook;
  /** The skills of a child: those with these names, or all. `isHere`: the child works in the same files. */
  forChild(child: SkillsOfChild): Skills;
}

/** How a child uses the skills of its parent. */
export interface SkillsOfChild {
  readonly owner: string;
  readonly names?: readonly string[];
  readonly isHere: boolean;
}

/** Where skills come from, and where problems with them go. */
export interface SkillsOptions {
  /** The common files: the layer of a user cannot add or replace a skill. */
  readonly files: Filesystem;
  readonly clock: Clock;
  readonly names?: readonly string[];
  warn(message: string): void;
}

const maxPromptCharacters = 40_000;

/** Opens the skills in a workspace. */
export function openSkills({ files, clock, names, warn }: SkillsOptions): Skills {
  const load = skillLoader(files, clock);
  let warned: LoadedSkills | undefined;

  const all = () =>
    whenDone(load(), (loaded) => {
      if (loaded !== warned) {
        warned = loaded;
        for (const { path, level, reason } of loaded.problems) {
          warn(`${path} ${level === "skipped" ? "is skipped" : "has a problem"}: ${reason}`);
        }
      }
      return loaded.skills;
    });
  return skillsFrom({ files, warn, list: selector(all, "The agent", names, warn), isHere: true });
}

/** Selects skills by name, and warns once about each name that does not exist. */
function selector(
  list: () => Awaitable<readonly Skill[]>,
  owner: string,
  names: readonly string[] | undefined,
  warn: (message: string) => void,
): () => Awaitable<readonly Skill[]> {
  if (names === undefined) return list;
  let from: readonly Skill[] | undefined;
  let selected: readonly Skill[] = [];
  const select = (skills: readonly Skill[]) => {
    if (skills === from) return selected;
    from = skills;
    selected = skills.filter(({ name }) => names.includes(name));
    const missing = names.filter((name) => !selected.some((skill) => skill.name === name));
    for (const name of missing) {
      warn(`${owner} has ${JSON.stringify(oneLine(name, 100))} in skills, which does not exist.`);
    }
    return selected;
  };
  return () => whenDone(list(), select);
}

interface Selected {
  readonly files: Filesystem;
  readonly isHere: boolean;
  list(): Awaitable<readonly Skill[]>;
  warn(message: string): void;
}

function skillsFrom({ files, list, isHere, warn }: Selected): Skills {
  let prompted: { readonly skills: readonly Skill[]; readonly prompts: Map<boolean, string> };

  function promptOf(skills: readonly Skill[], canExecute: boolean): string {
    if (prompted?.skills !== skills) prompted = { skills, prompts: new Map() };
    const known = prompted.prompts.get(canExecute);
    if (known !== undefined) return known;
    const room = Math.floor(maxPromptCharacters / skills.length);
    const longest = Math.max(...skills.map(({ description }) => description.length));
    if (longest > room) {
      warn(`There are ${skills.length} skills, so descriptions are cut to ${room} characters.`);
    }
    const shown = skills.map(({ name, description }) => ({
      ...{ name, description: oneLine(description, room) },
    }));
    const prompt = skillsPrompt(shown, { canExecute, isHere });
    prompted.prompts.set(canExecute, prompt);
    return prompt;
  }

  function preReasoning(context: HookContext, call: ModelCall): Awaitable<void> {
    if (!call.tools.some(({ name }) => name === loadSkillName)) return undefined;
    return whenDone(list(), (all) => {
      const skills = visibleSkills(all, rulesBehind(context));
      if (skills.length === 0) {
        call.tools = call.tools.filter(({ name }) => name !== loadSkillName);
        return;
      }
      const canExecute = call.tools.some(({ name }) => name === "execute");
      const prompt = promptOf(skills, canExecute);
      call.systemPrompt = call.systemPrompt === "" ? prompt : `${call.systemPrompt}\n\n${prompt}`;
    });
  }

  const preActing: Hook["preActing"] = (context, call) =>
    whenDone(list(), (skills) => verdictOf(context, call, skills));

  function verdictOf(
    context: HookContext,
    call: ToolCall,
    skills: readonly Skill[],
  ): ActingVerdict | undefined {
    const limiting = skills.filter(({ allowedTools }) => allowedTools !== undefined);
    if (limiting.length === 0) return undefined;
    const { taskId } = context.task;
    const names = new Set(
      loadsIn(context).flatMap((load) => (load.taskId === taskId ? load.name : [])),
    );
    const loaded = limiting.filter(({ name }) => names.has(name));
    const lists = loaded.flatMap(({ allowedTools }) => (allowedTools ? [allowedTools] : []));
    if (isAllowedBySkills(lists, call)) return undefined;
    return { result: skillErrors.notAllowed(call.name, loaded), state: "denied" };
  }

  return {
    list,
    hook: {
      name: "skills",
      priority: 70,
      tools: [loadSkillTool(files, list)],
      preReasoning,
      preActing,
    },
    forChild: ({ owner, names, isHere }) =>
      skillsFrom({ files, warn, isHere, list: selector(list, owner, names, warn) }),
  };
}
