import { jsonSchema, ToolFailure, tool } from "../../agent/index.ts";
import { RivuletError } from "../../base/error.ts";
import { nearest } from "../../base/options.ts";
import type { Awaitable } from "../../base/time.ts";
import type { Tool } from "../../contract/index.ts";
import { problemReason } from "../filesystem/file-loader.ts";
import { guardFiles, rulesBehind, rulesOnPaths } from "../filesystem/file-rules.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { linesOf } from "../filesystem/text.ts";
import { frameFile } from "../prompts.ts";
import { skillPath, skillsDirectory, visibleSkills } from "../skills/load.ts";
import { readSkill, type Skill, skillFile } from "../skills/skill.ts";

/** The name of the tool that loads skills. */
export const loadSkillName = "load_skill";

const maxListed = 100;
const maxLines = 2_000;
const maxCharacters = 40_000;

/** Creates the tool with which a model reads the instructions and files of the skills on offer. */
export function loadSkillTool(allFiles: Filesystem, list: () => Awaitable<readonly Skill[]>): Tool {
  return tool({
    name: loadSkillName,
    description:
      "Loads the instructions of a skill. With path, reads one of the skill's files instead.",
    input: jsonSchema<{ name: string; path?: string; offset?: number }>({
      type: "object",
      properties: {
        name: { type: "string", description: "The name of the skill." },
        path: { type: "string", description: "A text file, relative to the skill's directory." },
        offset: { type: "integer", minimum: 1, description: "The first line of the file." },
      },
      required: ["name"],
      additionalProperties: false,
    }),
    idempotent: true,
    readOnly: true,
    async execute({ name, path, offset = 1 }, context) {
      const layers = rulesBehind(context);
      const files = guardFiles(allFiles, rulesOnPaths(layers));
      const skills = visibleSkills(await list(), layers);
      if (!skills.some((skill) => skill.name === name)) throw unknownSkill(name, skills);
      try {
        const isFile = path !== undefined && path !== skillFile;
        return isFile ? await readResource(files, name, path, offset) : await load(files, name);
      } catch (error) {
        if (!(error instanceof RivuletError)) throw error;
        throw new ToolFailure(error.code, problemReason(error));
      }
    },
  });
}

async function load(files: Filesystem, name: string): Promise<string> {
  const { instructions } = await readSkill(files, skillPath(name), name);
  const { paths } = await files.below(`${skillsDirectory}/${name}`).glob("**/*");
  const others = paths.filter((path) => path !== skillFile);
  const shown = others.slice(0, maxListed).map((path) => `- ${path}`);
  const more = others.length - shown.length;
  return [
    frameFile("skill", skillPath(name), instructions),
    ...(shown.length > 0 ? [`Files of the skill, relative to ${skillsDirectory}/${name}:`] : []),
    ...shown,
    ...(more > 0 ? [`- and ${more} more`] : []),
  ].join("\n");
}

async function readResource(files: Filesystem, name: string, path: string, offset: number) {
  const { data } = await files.below(`${skillsDirectory}/${name}`).read(path);
  const found = linesOf(data, offset, maxLines);
  if (!found) throw new ToolFailure("not_text", `${JSON.stringify(path)} is not a text file.`);
  let length = 0;
  const end = found.lines.findIndex((line) => {
    length += line.length + 1;
    return length > maxCharacters;
  });
  const [first = ""] = found.lines;
  const lines = end < 0 ? found.lines : end > 0 ? found.lines.slice(0, end) : [cut(first)];
  const next = offset + lines.length;
  const rest =
    next <= found.total ? [`[continue with offset ${next} of ${found.total} lines]`] : [];
  return [frameFile("skill-file", path, lines.join("\n")), ...rest].join("\n");
}

function cut(line: string): string {
  return `${line.slice(0, maxCharacters).toWellFormed()}…`;
}

function unknownSkill(name: string, skills: readonly Skill[]): ToolFailure {
  const names = skills.map((skill) => skill.name);
  const near = nearest(name, names);
  const shown = (near.length > 0 ? near : names).slice(0, maxListed).join(", ");
  const message = `There is no skill ${JSON.stringify(name.slice(0, 100))}.`;
  return new ToolFailure("unknown_skill", `${message} There are: ${shown}.`);
}
