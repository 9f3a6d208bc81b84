import { inspect } from "node:util";
import { checkModel, type Model } from "../../agent/model/resolve.ts";
import {
  type Permissions,
  permissionsHint,
  permissionsProblem,
} from "../../agent/tool/permission.ts";
import { definitionOf, type Tool } from "../../agent/tool/tool.ts";
import type { Agent, Awaitable, Budget, StandardSchema } from "../../protocol/agent.ts";
import { RivuletError } from "../../protocol/error.ts";
import type { TaskRef } from "../../protocol/message.ts";
import { nameProblem } from "../filesystem/name.ts";

/** What every subagent can say of itself. */
interface SubagentBase {
  /** A letter or a digit, then letters, digits, `_` and `-`; 63 characters at most. Upper and lower case are the same. */
  readonly name: string;
  /** When to use it and what it gives back: this is all that the calling model knows of it. */
  readonly description: string;
  /** What people read in place of the name. */
  readonly displayName?: string;
  /** How long a caller waits that does not say it itself, 0 to 600; 0: it works in the background. */
  readonly timeoutSeconds?: number;
  /** What its result has to look like. */
  readonly output?: StandardSchema;
  readonly permissions?: Permissions;
  readonly budget?: Budget;
}

interface LocalBase extends SubagentBase, Without<"url" | "headers" | "agent" | "create"> {
  readonly allowPrivateNetwork?: never;
  /** Absent: the caller's. */
  readonly model?: Model;
  readonly maxIters?: number;
  /** A string is a glob that selects inherited tools, a tool is added; absent: all are inherited. */
  readonly tools?: readonly (string | Tool)[];
  readonly skills?: readonly string[];
  /** Whether it works in files of its own, which is the default, or in those of its caller. */
  readonly workspaceMode?: "isolated" | "shared";
  /** False: it can have subagents itself. */
  readonly leaf?: boolean;
  readonly subagents?: readonly SubagentDeclaration[];
}

/** A subagent that runs here: told what to do by `instructions`, or by the AGENTS.md of the directory `workspace`. */
export type LocalSubagent = LocalBase &
  (
    | { readonly instructions?: string; readonly workspace?: never }
    | { readonly workspace: string; readonly instructions?: never }
  );

type LocalOnly =
  | "model"
  | "maxIters"
  | "tools"
  | "skills"
  | "workspaceMode"
  | "leaf"
  | "subagents"
  | "instructions"
  | "workspace";

/** A subagent on another server. */
export interface RemoteSubagent extends SubagentBase, Without<LocalOnly | "agent" | "create"> {
  readonly url: string;
  readonly headers?:
    | Readonly<Record<string, string>>
    | (() => Awaitable<Readonly<Record<string, string>>>);
  readonly allowPrivateNetwork?: boolean;
}

/** A subagent that is there already. */
export interface ReadySubagent
  extends SubagentBase,
    Without<LocalOnly | "url" | "headers" | "allowPrivateNetwork" | "create"> {
  readonly agent: Agent;
}

/** A subagent that is made for each child. */
export interface MadeSubagent
  extends SubagentBase,
    Without<LocalOnly | "url" | "headers" | "allowPrivateNetwork" | "agent"> {
  create(child: {
    readonly task: TaskRef;
    readonly depth: number;
    readonly userId?: string;
  }): Awaitable<Agent>;
}

/** An agent that another one can call on; what does not go together does not compile. */
export type SubagentDeclaration = LocalSubagent | RemoteSubagent | ReadySubagent | MadeSubagent;

type Without<Keys extends string> = { readonly [Key in Keys]?: never };

const maxDeclarations = 256;
const maxTimeoutSeconds = 600;
const namePattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

/** What a declaration may have besides the key that tells its kind. */
const ownKeys = {
  local: [
    "model",
    "maxIters",
    "tools",
    "skills",
    "workspaceMode",
    "leaf",
    "subagents",
    "instructions",
    "workspace",
  ],
  url: ["headers", "allowPrivateNetwork"],
  agent: [],
  create: [],
} as const satisfies Record<string, readonly string[]>;
const kinds = ["url", "agent", "create"] as const;
const commonKeys: readonly string[] = [
  "name",
  "description",
  "displayName",
  "timeoutSeconds",
  "output",
  "permissions",
  "budget",
];
const allKeys: readonly string[] = [...commonKeys, ...kinds, ...Object.values(ownKeys).flat()];

/** Whether a declaration describes an agent that runs here and is yet to be made. */
export function isLocal(declaration: SubagentDeclaration): declaration is LocalSubagent {
  return kinds.every((kind) => declaration[kind] === undefined);
}

/** Throws `invalid_settings` when declarations, or those within them, cannot work one by one or together. */
export function checkDeclarations(declarations: readonly SubagentDeclaration[]): void {
  if (!Array.isArray(declarations)) {
    throw invalid("The subagents are not a list.", "Give an array of declarations.");
  }
  if (declarations.length > maxDeclarations) {
    const hint = `There can be ${maxDeclarations} at most.`;
    throw invalid(`There are ${declarations.length} subagents.`, hint);
  }
  const names = new Set<string>();
  for (const declaration of declarations) {
    checkDeclaration(declaration);
    const folded = declaration.name.toLowerCase();
    if (names.has(folded)) {
      const hint = "Upper and lower case are the same in names. Rename one of them.";
      throw invalid(`Two subagents are called ${shown(declaration.name)}.`, hint);
    }
    names.add(folded);
  }
}

/** Throws `invalid_settings` when something cannot be a declaration. */
export function checkDeclaration(declaration: unknown): asserts declaration is SubagentDeclaration {
  if (typeof declaration !== "object" || declaration === null) {
    throw invalid("A subagent is not an object.", "It is { name, description, … }.");
  }
  const settings = declaration as Settings;
  const refuse: Refuse = (problem, hint) => {
    throw invalid(`The subagent ${shown(settings.name)} ${problem}.`, hint);
  };
  checkName(settings.name);
  if (!isText(settings.description)) {
    refuse("has no description", "Say when to use it and what it gives back.");
  }
  checkKeys(settings, refuse);
  checkValues(settings, refuse);
}

type Settings = { readonly [key: string]: unknown };
type Refuse = (problem: string, hint: string) => never;

function checkName(name: unknown): void {
  const hint = "A letter or a digit, then letters, digits, _ and -, 63 characters at most.";
  if (typeof name !== "string" || !namePattern.test(name)) {
    throw invalid(`${shown(name)} cannot be the name of a subagent.`, hint);
  }
  // A directory of the workspace is called like it.
  const problem = nameProblem(name);
  if (problem === undefined) return;
  throw invalid(`${shown(name)} cannot be the name of a subagent: it ${problem}.`, hint);
}

/** What does not go together is refused, and so is what nobody would ever look at. */
function checkKeys(settings: Settings, refuse: Refuse): void {
  const present = Object.keys(settings).filter((key) => settings[key] !== undefined);
  const kind = kinds.find((one) => settings[one] !== undefined) ?? "local";
  const allowed: readonly string[] = [...commonKeys, kind, ...ownKeys[kind]];
  const other = present.find((key) => !allowed.includes(key));
  if (other !== undefined && !allKeys.includes(other)) {
    refuse(`has an unknown setting ${shown(other)}`, `There are: ${allKeys.join(", ")}.`);
  }
  if (other !== undefined && kind === "local") {
    refuse(`has ${other} without url`, "Only a subagent on another server can have it.");
  }
  if (other !== undefined) {
    refuse(`has both ${kind} and ${other}`, `Beside ${kind} leave out ${other}.`);
  }
  if (present.includes("instructions") && present.includes("workspace")) {
    const hint = "The AGENTS.md in its workspace has its instructions: leave out one of them.";
    refuse("has both instructions and workspace", hint);
  }
  if (settings.leaf !== false && present.includes("subagents")) {
    refuse("is a leaf and has subagents", "Set leaf: false, or leave out subagents.");
  }
}

function checkValues(settings: Settings, refuse: Refuse): void {
  const { maxIters, timeoutSeconds, workspace, workspaceMode, instructions } = settings;
  if (maxIters !== undefined && !(Number.isInteger(maxIters) && Number(maxIters) >= 1)) {
    refuse(`has maxIters ${shown(maxIters)}`, "It is a whole number, at least 1.");
  }
  if (timeoutSeconds !== undefined && !isTimeout(timeoutSeconds)) {
    const hint = `It is a number from 0, which is in the background, to ${maxTimeoutSeconds}.`;
    refuse(`has timeoutSeconds ${shown(timeoutSeconds)}`, hint);
  }
  if (workspaceMode !== undefined && workspaceMode !== "isolated" && workspaceMode !== "shared") {
    refuse(`has workspaceMode ${shown(workspaceMode)}`, 'It is "isolated" or "shared".');
  }
  if (workspace !== undefined && !isText(workspace)) {
    refuse(`has workspace ${shown(workspace)}`, "It is the path of a directory.");
  }
  if (instructions !== undefined && typeof instructions !== "string") {
    refuse("has instructions that are not text", "Say what it is and how it works.");
  }
  checkTools(settings.tools, refuse);
  checkBehind(settings, refuse);
}

function isTimeout(value: unknown): boolean {
  return typeof value === "number" && value >= 0 && value <= maxTimeoutSeconds;
}

function checkTools(tools: unknown, refuse: Refuse): void {
  if (tools === undefined) return;
  const isTool = (one: unknown) =>
    isText(one) || (typeof one === "object" && one !== null && definitionOf(one as Tool));
  if (Array.isArray(tools) && tools.every(isTool)) return;
  refuse(`has tools ${shown(tools)}`, "It is a list of names or globs of tools, and of tools.");
}

/** What the agent behind a declaration is made of. */
function checkBehind(settings: Settings, refuse: Refuse): void {
  const { model, output, url, agent, create, subagents, permissions } = settings;
  const wrongRules = permissionsProblem(permissions);
  if (wrongRules !== undefined) refuse(`has wrong rules: ${wrongRules}`, permissionsHint);
  try {
    if (model !== undefined) checkModel(model);
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
    refuse(
      `has a model that cannot be used: ${error.message.replace(/\.$/, "")}`,
      error.hint ?? "",
    );
  }
  if (output !== undefined && typeof output !== "object" && typeof output !== "function") {
    refuse("has an output that is no schema", "Give a Standard Schema, such as one of zod.");
  }
  if (url !== undefined) checkUrl(url, refuse);
  if (agent !== undefined && typeof (agent as Partial<Agent> | null)?.run !== "function") {
    refuse("has an agent that cannot run", "Give an Agent, such as a ReActAgent.");
  }
  if (create !== undefined && typeof create !== "function") {
    refuse("has a create that is no function", "It is called for each child and gives an Agent.");
  }
  if (subagents !== undefined) checkDeclarations(subagents as readonly SubagentDeclaration[]);
}

function checkUrl(url: unknown, refuse: Refuse): void {
  const parsed = typeof url === "string" ? URL.parse(url) : null;
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    refuse(`has the url ${shown(url)}`, "It begins with https:// or http://.");
  }
  // An address is kept in records and shown in errors.
  if (parsed.username !== "" || parsed.password !== "") {
    refuse("has a url with a password in it", "Give it with headers.");
  }
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

function shown(value: unknown): string {
  const isText = typeof value === "string";
  const text = isText ? JSON.stringify(value) : inspect(value, { depth: 1, breakLength: Infinity });
  return text.length > 100 ? `${text.slice(0, 100).toWellFormed()}…` : text;
}

function invalid(message: string, hint: string): RivuletError<"invalid_settings"> {
  return new RivuletError("invalid_settings", message, { hint });
}
