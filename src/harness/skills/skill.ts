import { RivuletError } from "../../base/error.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { exactText } from "../filesystem/text.ts";
import { readFrontMatter, unknownKeys } from "../front-matter.ts";
import { type AllowedTool, readAllowedTools } from "./allowed-tools.ts";

/** What a skill says about itself; its instructions are read when a model asks for them. */
export interface Skill {
  readonly name: string;
  /** What the skill does and when to use it. */
  readonly description: string;
  readonly license?: string;
  /** What the skill needs, such as programs or network access. */
  readonly compatibility?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  /** The tools that a task may use after it has loaded the skill; absent: all of the agent's. */
  readonly allowedTools?: readonly AllowedTool[];
}

/** The name of the file that makes a directory a skill. */
export const skillFile = "SKILL.md";

const maxFileBytes = 64 * 1024;
const maxName = 64;
const maxDescription = 1_024;
const maxCompatibility = 500;
const maxMetadata = 64;
const keys = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
const advice: Readonly<Record<string, string>> = {
  allowed_tools: "write it allowed-tools",
  allowedTools: "write it allowed-tools",
  version: "put it below metadata",
  author: "put it below metadata",
};

/** Reads the file of a skill in `skills/<directory>`; throws `invalid_skill` or a file error. */
export async function readSkill(
  files: Filesystem,
  path: string,
  directory: string,
): Promise<{
  readonly skill: Skill;
  readonly instructions: string;
  readonly warnings: readonly string[];
}> {
  const stat = await files.stat(path);
  if (stat && stat.type !== "file") {
    throw unusable(`${skillFile} is not a regular file. Links are not followed.`);
  }
  const data = stat && stat.size > maxFileBytes ? undefined : (await files.read(path)).data;
  if (!data || data.byteLength > maxFileBytes) {
    const advice = "Move details into other files of the skill.";
    throw unusable(`${skillFile} is larger than ${maxFileBytes} bytes. ${advice}`);
  }
  const parts = await readFrontMatter(exactText(data, path));
  if ("problem" in parts) throw unusable(parts.problem);
  if (parts.data === undefined) {
    throw unusable(`${skillFile} must start with front matter: a line that is exactly ---.`);
  }
  const allowed = readAllowedTools(parts.data["allowed-tools"]);
  if ("problem" in allowed) throw unusable(allowed.problem);
  const settings = {
    name: nameIn(parts.data.name, directory),
    description: textIn(parts.data, "description", maxDescription),
    license: optionalText(parts.data, "license"),
    compatibility: optionalText(parts.data, "compatibility", maxCompatibility),
    metadata: metadataIn(parts.data.metadata),
    allowedTools: allowed.tools,
  };
  const entries = Object.entries(settings).filter(([, value]) => value !== undefined);
  const instructions = parts.body.replaceAll("\r\n", "\n").trim();
  const warnings = [
    ...unknownKeys(parts.data, keys, advice),
    ...allowed.warnings,
    ...(instructions === "" ? ["It has no instructions after the front matter."] : []),
  ];
  return { skill: Object.fromEntries(entries) as unknown as Skill, instructions, warnings };
}

function nameIn(value: unknown, directory: string): string {
  // YAML reads a name of digits as a number.
  const name = typeof value === "number" ? String(value) : value;
  if (!isSet(name)) throw unusable("`name` is required.");
  if (typeof name !== "string") throw unusable("`name` must be a string.");
  if (name.length > maxName) throw unusable(`\`name\` is longer than ${maxName} characters.`);
  if (!/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name)) {
    const rule = "must be small letters, digits and single hyphens between them";
    throw unusable(`\`name\` ${rule}, got ${JSON.stringify(name)}.`);
  }
  if (name === directory) return name;
  throw unusable(`\`name\` is ${JSON.stringify(name)}, but the directory is "${directory}".`);
}

function textIn(data: Readonly<Record<string, unknown>>, key: string, max: number): string {
  const text = optionalText(data, key, max);
  if (text === undefined) throw unusable(`\`${key}\` is required.`);
  return text;
}

function optionalText(
  data: Readonly<Record<string, unknown>>,
  key: string,
  max = Number.POSITIVE_INFINITY,
): string | undefined {
  const value = data[key];
  if (!isSet(value)) return undefined;
  if (typeof value !== "string") throw unusable(`\`${key}\` must be a string.`);
  const text = value.trim();
  if (text === "") throw unusable(`\`${key}\` is empty.`);
  if (text.length <= max) return text;
  throw unusable(`\`${key}\` has ${text.length} characters; the limit is ${max}.`);
}

function metadataIn(value: unknown): Readonly<Record<string, string>> | undefined {
  if (!isSet(value)) return undefined;
  if (typeof value !== "object" || Array.isArray(value)) {
    throw unusable("`metadata` must be keys with values.");
  }
  const entries = Object.entries(value as object);
  if (entries.length > maxMetadata) {
    throw unusable(`\`metadata\` has ${entries.length} keys; the limit is ${maxMetadata}.`);
  }
  const asText = (one: unknown) => (typeof one === "string" ? one : (JSON.stringify(one) ?? ""));
  return Object.fromEntries(entries.map(([key, one]) => [key, asText(one)]));
}

function isSet<T>(value: T): value is NonNullable<T> {
  return value !== null && value !== undefined;
}

function unusable(reason: string): RivuletError {
  return new RivuletError("invalid_skill", reason);
}
