import type { Agent } from "../../contract/index.ts";
import { exactText } from "../filesystem/text.ts";
import { harnessBehind } from "../harness.ts";
import { skillPath } from "./load.ts";
import type { Skill } from "./skill.ts";

/** A skill for a reader outside: what it says about itself, and the text of its file. */
export interface ServedSkill extends Pick<Skill, "name" | "description"> {
  read(): Promise<string>;
}

/** The skills of some agents, by name; the first agent with a name has it. They come from files that all users share. */
export async function skillsOf(agents: readonly Agent[]): Promise<readonly ServedSkill[]> {
  const found = new Map<string, ServedSkill>();
  for (const agent of agents) {
    const { skills, workspace } = harnessBehind(agent) ?? {};
    for (const { name, description } of (await skills?.list()) ?? []) {
      const path = skillPath(name);
      const read = async () => exactText((await workspace?.files.read(path))?.data ?? empty, path);
      if (!found.has(name)) found.set(name, { name, description, read });
    }
  }
  return [...found.values()];
}

const empty = new Uint8Array();
