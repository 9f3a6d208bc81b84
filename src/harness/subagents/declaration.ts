import {
  checkModel,
  definitionOf,
  type Model,
  type Permissions,
  permissionsHint,
  permissionsProblem,
} from "../../agent/index.ts";
import { RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { describe, type Field, invalid, ownerOf, readOptions } from "../../base/options.ts";
import type { Awaitable } from "../../base/time.ts";
import {
  type Agent,
  type Budget,
  budgetField,
  type RemoteLimits,
  type StandardSchema,
  type TaskRef,
  type Tool,
} from "../../contract/index.ts";
import { type CompactionOptions, compactionFields } from "../context/compaction.ts";
import { evictionField } from "../context/eviction.ts";
import { nameProblem } from "../filesystem/path.ts";
import { isSandboxChoice, type SandboxChoice } from "../filesystem/sandbox.ts";

interface SubagentBase {
  /** A letter or digit, then letters, digits, `_` and `-`; at most 63 characters; case-insensitive. */
  readonly name: string;
  /** When to use it and what it returns: the calling model sees only this. At most 2,000 characters. */
  readonly description: string;
  /** The name for people. */
  readonly displayName?: string;
  /** How long a call waits by default, at most 600 000 ms (ten minutes); 0 runs it in the background. */
  readonly timeoutMs?: number;
  /** The schema of its result. */
  readonly output?: StandardSchema;
  readonly permissions?: Permissions;
  readonly budget?: Budget;
}

interface LocalBase extends SubagentBase, Without<RemoteKey | "agent" | "create"> {
  /** Defaults to the caller's model. */
  readonly model?: Model;
  readonly maxIters?: number;
  /** A string is a glob that selects inherited tools, a tool is added; by default all tools are inherited. */
  readonly tools?: readonly (string | Tool)[];
  /** The names of the caller's skills that it gets; by default all of them. */
  readonly skills?: readonly string[];
  /** How its sessions are compacted; defaults to its caller's options if it has its caller's model. */
  readonly compaction?: CompactionOptions | false;
  /** Saves its longer tool results to a file; defaults to its caller's option. */
  readonly eviction?: { readonly maxChars?: number } | false;
  /** Whether it works in its own files (default) or in its caller's. */
  readonly workspaceMode?: "isolated" | "shared";
  /** Whether it can run commands, and how; defaults to what its caller's files can do. */
  readonly filesystem?: SandboxChoice;
}

/** Its own subagents; a leaf has none. `leaf` defaults to true without `subagents`, and to false with them. */
type OwnSubagents =
  | { readonly leaf?: boolean; readonly subagents?: never }
  | { readonly leaf?: false; readonly subagents?: readonly SubagentDeclaration[] };

/** A subagent that runs in this process. It gets a `systemPrompt`, or the AGENTS.md of the directory `workspace`. */
export type LocalSubagent = LocalBase &
  OwnSubagents &
  (
    | { readonly systemPrompt?: string; readonly workspace?: never }
    | { readonly workspace: string; readonly systemPrompt?: never }
  );

interface RemoteBase extends SubagentBase, Without<LocalKey | "agent" | "create"> {
  /** Headers of every request to that server, or a function that returns them for the user of the task. */
  readonly headers?:
    | Readonly<Record<string, string>>
    | ((task: RemoteUser) => Awaitable<Readonly<Record<string, string>>>);
  /** Whether the server may have a private, loopback or link-local address; defaults to false. */
  readonly allowPrivateNetwork?: boolean;
  readonly limits?: RemoteLimits;
}

/** A subagent that runs on another server. */
export type RemoteSubagent = RemoteBase &
  (
    | {
        /** The agent's address on a Rivulet server: `https://review.example/agents/reviewer`. */
        readonly url: string;
        /** What the server speaks; defaults to `rivulet`. */
        readonly protocol?: "rivulet" | "agentscope";
        readonly a2a?: never;
      }
    | {
        /** The address of the card of an A2A agent. */
        readonly a2a: string;
        readonly url?: never;
        readonly protocol?: never;
      }
  );

/** The user of a task that runs on another server. */
export interface RemoteUser {
  readonly userId?: string;
}

interface ReadySubagent extends SubagentBase, Without<LocalKey | RemoteKey | "create"> {
  readonly agent: Agent;
}

/** A subagent that a function creates. */
export interface MadeSubagent extends SubagentBase, Without<LocalKey | RemoteKey | "agent"> {
  create(child: {
    readonly task: TaskRef;
    readonly depth: number;
    readonly userId?: string;
  }): Awaitable<Agent>;
}

/** A subagent; keys that exclude each other do not compile. */
export type SubagentDeclaration = LocalSubagent | RemoteSubagent | ReadySubagent | MadeSubagent;

type Without<Keys extends string> = { readonly [Key in Keys]?: never };
type LocalKey = keyof typeof fields.local;
type RemoteKey = keyof typeof fields.url | keyof typeof fields.a2a;

const maxDeclarations = 256;
const maxTimeoutMs = 600_000;
const maxDescription = 2_000; // it is in every system prompt of the caller
const executeName = "execute";
const namePattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

const webAddress: Field = {
  fits: isWebAddress,
  expected: "a URL that starts with https:// or http://",
};
const remoteFields = {
  headers: is.or(is.recordOf(is.text), "a function", (value) => typeof value === "function"),
  allowPrivateNetwork: is.flag,
  limits: is.options({ lostAfterMs: is.amount, maxBytes: is.count, maxTasks: is.amount }),
};
const fields = {
  common: {
    name: is.anything,
    description: is.anything,
    displayName: is.text,
    timeoutMs: is.number(
      `a number from 0 (in the background) to ${maxTimeoutMs} (milliseconds)`,
      (ms) => ms >= 0 && ms <= maxTimeoutMs,
    ),
    output: { fits: isSchema, expected: "a Standard Schema, such as a zod schema" },
    permissions: is.anything,
    budget: budgetField,
  },
  local: {
    model: is.anything,
    maxIters: is.count,
    tools: { fits: isToolList, expected: "an array of tools and of names or globs of tools" },
    skills: is.listOf(is.text),
    compaction: is.orFalse(is.options(compactionFields)),
    eviction: is.orFalse(evictionField),
    workspaceMode: is.oneOf("isolated", "shared"),
    leaf: is.flag,
    filesystem: { fits: isSandboxChoice, expected: "{ sandbox: true }" },
    subagents: is.list,
    systemPrompt: is.text,
    workspace: { fits: isText, expected: "the path of a directory" },
  },
  url: {
    url: webAddress,
    protocol: is.oneOf("rivulet", "agentscope"),
    ...remoteFields,
  },
  a2a: { a2a: webAddress, ...remoteFields },
  agent: { agent: { fits: isAgent, expected: "an Agent, such as a ReActAgent" } },
  create: { create: is.callback },
} as const satisfies Record<string, Record<string, Field>>;
const allFields: Readonly<Record<string, Field>> = Object.assign({}, ...Object.values(fields));
const kinds = ["url", "a2a", "agent", "create"] as const;

/** Returns whether a declaration describes an agent that the harness creates in this process. */
export function isLocal(declaration: SubagentDeclaration): declaration is LocalSubagent {
  return kinds.every((kind) => declaration[kind] === undefined);
}

/** Throws `invalid_settings` if a declaration, or the combination of them, is invalid. */
export function checkDeclarations(declarations: readonly SubagentDeclaration[]): void {
  if (declarations.length > maxDeclarations) {
    const hint = `Declare at most ${maxDeclarations}.`;
    throw invalid(`There are ${declarations.length} subagents.`, hint);
  }
  const names = new Set<string>();
  for (const declaration of declarations) {
    checkDeclaration(declaration);
    const folded = declaration.name.toLowerCase();
    if (names.has(folded)) {
      const hint = "Rename one of them. Names are case-insensitive.";
      throw invalid(`Two subagents have the name ${describe(declaration.name)}.`, hint);
    }
    names.add(folded);
  }
}

/** Throws `invalid_settings` if a declaration is invalid. */
export function checkDeclaration(declaration: unknown): asserts declaration is SubagentDeclaration {
  const owner = ownerOf("Subagent", declaration);
  const settings = readOptions(owner, declaration as Settings, allFields, `${owner}: `);
  const refuse: Refuse = (problem, hint) => {
    throw invalid(`${owner} ${problem}.`, hint);
  };
  checkName(settings.name);
  if (!isText(settings.description)) {
    refuse("has no description", "Say when to use it and what it returns.");
  }
  const { length } = settings.description as string;
  if (length > maxDescription) {
    const hint = `Use at most ${maxDescription}, and put the rest into its systemPrompt.`;
    refuse(`has a description of ${length} characters`, hint);
  }
  checkKeys(settings, refuse);
  checkValues(settings, refuse);
}

type Settings = { readonly [key: string]: unknown };
type Refuse = (problem: string, hint: string) => never;

function checkName(name: unknown): void {
  const isValid = isText(name) && namePattern.test(name);
  // Its directory in the workspace has the same name.
  const isTaken = isText(name) && name.toLowerCase() === executeName;
  const problem = isTaken
    ? "is the agent id of background commands"
    : isValid
      ? nameProblem(name)
      : "is too long or has other characters";
  if (problem === undefined) return;
  const hint = "Use a letter or digit, then letters, digits, _ and -, at most 63 characters.";
  throw invalid(`${describe(name)} cannot be the name of a subagent: it ${problem}.`, hint);
}

function checkKeys(settings: Settings, refuse: Refuse): void {
  const present = Object.keys(settings);
  const kind = kinds.find((key) => settings[key] !== undefined) ?? "local";
  const allowed = { ...fields.common, ...fields[kind] };
  const extra = present.find((key) => !Object.hasOwn(allowed, key));
  if (extra !== undefined && kind === "local") {
    refuse(`has ${extra} without url`, `Remove ${extra}: only a remote subagent can have it.`);
  }
  if (extra !== undefined) refuse(`has both ${kind} and ${extra}`, `Remove ${extra} or ${kind}.`);
  if (present.includes("systemPrompt") && present.includes("workspace")) {
    const hint = "Remove one of them: the AGENTS.md of its workspace is its system prompt.";
    refuse("has both systemPrompt and workspace", hint);
  }
  if (settings.leaf === true && present.includes("subagents")) {
    refuse("is a leaf and has subagents", "Remove leaf: true, or subagents.");
  }
}

function checkValues(settings: Settings, refuse: Refuse): void {
  const { model, url, a2a, subagents, permissions } = settings;
  const problem = permissionsProblem(permissions);
  if (problem !== undefined) refuse(`has invalid permissions: ${problem}`, permissionsHint);
  try {
    if (model !== undefined) checkModel(model);
  } catch (error) {
    if (!(error instanceof RivuletError)) throw error;
    const reason = error.message.replace(/\.$/, "");
    refuse(`has a model that cannot be used: ${reason}`, error.hint ?? "");
  }
  const address = url ?? a2a;
  const parsed = isText(address) ? URL.parse(address) : null;
  // A URL is stored in records and shown in errors.
  if (parsed?.username || parsed?.password) {
    refuse("has a url with a password", "Pass it in headers.");
  }
  if (parsed?.search || parsed?.hash) refuse("has a url with a query", "Pass it in headers.");
  if (subagents !== undefined) checkDeclarations(subagents as readonly SubagentDeclaration[]);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

function isToolList(value: unknown): boolean {
  const isTool = (tool: unknown) => typeof tool === "object" && tool && definitionOf(tool as Tool);
  return Array.isArray(value) && value.every((entry) => isText(entry) || isTool(entry));
}

function isSchema(value: unknown): boolean {
  return typeof value === "object" || typeof value === "function";
}

function isWebAddress(value: unknown): boolean {
  return isText(value) && /^https?:$/.test(URL.parse(value)?.protocol ?? "");
}

/** Returns whether a value has the `Agent` interface. */
export function isAgent(value: unknown): value is Agent {
  return typeof (value as Partial<Agent> | null | undefined)?.run === "function";
}
