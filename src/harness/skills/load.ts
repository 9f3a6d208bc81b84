import type { Permissions } from "../../agent/index.ts";
import type { Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import type { Awaitable } from "../../base/time.ts";
import { fileLoader, type LoadProblem, problemReason } from "../filesystem/file-loader.ts";
import { rulesOnPaths } from "../filesystem/file-rules.ts";
import type { FileStat, Filesystem } from "../filesystem/filesystem.ts";
import { steering } from "../filesystem/steering.ts";
import { readSkill, type Skill, skillFile } from "./skill.ts";

/** The skills of a workspace, ordered by name. */
export interface LoadedSkills {
  readonly skills: readonly Skill[];
  readonly problems: readonly LoadProblem[];
}

/** The directory of the skills. */
export const skillsDirectory: string = steering.skills;

const maxSkills = 128;
const noSkills = { entries: [], paths: [], names: [], problems: [] };

type Found = Awaited<ReturnType<typeof findSkills>>;

/** Reads one skill from each directory in `skills`; loads again when one changes, and else returns the same object. */
export function skillLoader(files: Filesystem, clock?: Clock): () => Awaitable<LoadedSkills> {
  const find = () => findSkills(files);
  const load = (found: Found) => loadSkills(files, found);
  return fileLoader(files, skillsDirectory, { find, load }, clock);
}

/** The path of the file of a skill. */
export function skillPath(name: string): string {
  return `${skillsDirectory}/${name}/${skillFile}`;
}

/** The skills that no rule hides from a task; the same array if there is no rule on paths. */
export function visibleSkills(
  skills: readonly Skill[],
  layers: readonly Permissions[],
): readonly Skill[] {
  const rules = rulesOnPaths(layers);
  return rules ? skills.filter(({ name }) => rules.mayRead(skillPath(name))) : skills;
}

/** The name of the skill whose file a model's path names; undefined if it is another file. */
export function skillPathName(path: string): string | undefined {
  return /(?:^|\/)skills\/([a-z0-9-]+)\/SKILL\.md$/.exec(path)?.[1];
}

async function findSkills(files: Filesystem) {
  const skipped = (path: string, reason: string): LoadProblem => ({
    ...{ path, level: "skipped", reason },
  });
  try {
    const { entries, cut } = await files.list(skillsDirectory);
    const nameOf = ({ path }: FileStat) => path.slice(path.lastIndexOf("/") + 1);
    const links = entries.filter(({ type }) => type === "other");
    const all = entries.filter(({ type }) => type === "directory").map(nameOf);
    const names = all.slice(0, maxSkills);
    const paths = names.map(skillPath);
    const stats = await Promise.all(paths.map((path) => files.stat(path)));
    return {
      entries: stats.filter((stat) => stat !== undefined),
      paths,
      names,
      problems: [
        ...links.map(({ path }) => skipped(path, "It is a link. Links are not followed.")),
        ...(cut || all.length > maxSkills
          ? [skipped(skillsDirectory, `Only the first ${maxSkills} skills are read.`)]
          : []),
      ],
    };
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
    if (error.code === "not_found") return noSkills;
    return { ...noSkills, problems: [skipped(skillsDirectory, problemReason(error))] };
  }
}

async function loadSkills(files: Filesystem, { names, problems }: Found) {
  const skills: Skill[] = [];
  const found: LoadProblem[] = [...problems];
  let isComplete = true;
  for (const name of names) {
    const path = skillPath(name);
    try {
      const { skill, warnings } = await readSkill(files, path, name);
      skills.push(skill);
      for (const reason of warnings) found.push({ path, level: "warning", reason });
    } catch (error) {
      if (!(error instanceof RivuletError)) throw error;
      if (error.code === "file_failed") isComplete = false; // it may be readable the next time
      const isMissing = error.code === "not_found";
      const reason = isMissing ? await missingReason(files, name) : problemReason(error);
      found.push({ path, level: "skipped", reason });
    }
  }
  return { loaded: { skills, problems: found }, isComplete };
}

async function missingReason(files: Filesystem, name: string): Promise<string> {
  const { entries } = await files.list(`${skillsDirectory}/${name}`);
  const near = entries.find(({ path }) => path.toLowerCase() === skillPath(name).toLowerCase());
  const found = near?.path.slice(near.path.lastIndexOf("/") + 1);
  return found === undefined
    ? `The directory has no ${skillFile}.`
    : `The file must be named ${skillFile}, not ${found}.`;
}
