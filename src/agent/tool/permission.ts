import { matchesGlob } from "../../base/glob.ts";
import { type Field, invalid } from "../../base/options.ts";
import { isObject } from "../../base/plain.ts";
import type { Message, ToolUseBlock } from "../../contract/index.ts";
import { areAllowed, isCommandPattern, restricts } from "./command.ts";

/** Matches calls by a glob for the tool's name and, optionally, globs for fields of its input and for shell commands. */
export type Rule =
  | string
  | {
      readonly tool: string;
      readonly input?: Readonly<Record<string, string>>;
      /**
       * The words of a command in the input field `command`, such as `git status` or `git log *`. The shell script there
       * is parsed: an allow rule holds only if such rules match every command in it, word by word. Ask and deny rules match
       * any command that begins with these words; if only the shell knows what a script runs, a person is asked, and
       * a script that gives an interpreter commands which cannot be read is refused under a deny rule.
       */
      readonly command?: string;
    };

/** The calls that an agent may make without approval, with approval, or never. A glob has `*` (any text) and `?` (one character). */
export interface Permissions {
  readonly allow?: readonly Rule[];
  readonly ask?: readonly Rule[];
  readonly deny?: readonly Rule[];
}

const lists = ["allow", "ask", "deny"] as const satisfies readonly (keyof Permissions)[];

/** Why rules are invalid; an invalid rule must not be ignored, because it would let calls through. */
export function permissionsProblem(permissions: unknown): string | undefined {
  if (permissions === undefined) return undefined;
  if (!isObject(permissions)) return "permissions must be an object";
  const unknown = Object.keys(permissions).find((key) => !lists.some((list) => list === key));
  if (unknown !== undefined) return `permissions.${unknown} does not exist`;
  for (const list of lists) {
    const rules = permissions[list];
    if (rules === undefined) continue;
    if (!Array.isArray(rules)) return `permissions.${list} must be an array`;
    const index = rules.findIndex((rule) => !isRule(rule));
    if (index >= 0) return `permissions.${list}[${index}] must be a rule`;
    const trap = rules.findIndex(matchesScriptText);
    if (trap >= 0) return `permissions.${list}[${trap}].input.command ${trapReason}`;
  }
  return undefined;
}

/** The rule for permissions. */
export const permissionsField: Field = {
  fits(value) {
    const problem = permissionsProblem(value);
    if (problem !== undefined) throw invalid(`Wrong rules: ${problem}.`, permissionsHint);
    return true;
  },
  expected: "permissions",
};

/** An example of valid rules. */
export const permissionsHint =
  'Pass rules such as `{ deny: ["rm_*", { tool: "write", input: { path: "/etc/*" } }, { tool: "execute", command: "rm" }] }`.';

const commandTool = "execute";
const trapReason =
  "matches the text of a script, which quotes and spaces change; use `command` instead of `input`";

function matchesScriptText(rule: Rule): boolean {
  if (typeof rule === "string" || !Object.hasOwn(rule.input ?? {}, "command")) return false;
  return matchesGlob(rule.tool, commandTool);
}

function isRule(rule: unknown): rule is Rule {
  if (!isObject(rule)) return typeof rule === "string" && rule !== "";
  const { tool, input = {}, command } = rule;
  const hasGlobs =
    isObject(input) && Object.values(input).every((glob) => typeof glob === "string");
  const hasCommand = command === undefined || isCommandPattern(command);
  return typeof tool === "string" && tool !== "" && hasGlobs && hasCommand;
}

/** Deny beats ask beats allow; an array matches a deny or ask rule with one entry, an allow rule with all entries. */
export function decide(
  layers: readonly Permissions[],
  toolName: string,
  input: unknown,
): "allow" | "ask" | "deny" | undefined {
  const rulesFor = (decision: keyof Permissions, matches: ListMatch) =>
    layers.flatMap(
      (layer) =>
        layer[decision]?.filter((rule) => matchesCall(rule, toolName, input, matches)) ?? [],
    );
  const denied = rulesFor("deny", "some").map((rule) => restrictsCall(rule, input));
  if (denied.includes(true) || denied.includes("hidden")) return "deny";
  const asked = rulesFor("ask", "some").map((rule) => restrictsCall(rule, input));
  if ([...denied, ...asked].some((restricted) => restricted !== false)) return "ask";
  return allowsCall(rulesFor("allow", "every"), input) ? "allow" : undefined;
}

/** Whether a rule that matches a call also matches its command. */
function restrictsCall(rule: Rule, input: unknown): boolean | "unknown" | "hidden" {
  const pattern = commandOf(rule);
  if (pattern === undefined) return true;
  const script = commandOf(input);
  return script !== undefined && restricts(script, pattern);
}

function allowsCall(rules: readonly Rule[], input: unknown): boolean {
  const patterns = rules.map(commandOf);
  if (patterns.includes(undefined)) return true;
  const script = commandOf(input);
  const given = patterns.filter((pattern) => pattern !== undefined);
  return script !== undefined && given.length > 0 && areAllowed(script, given);
}

/** The command of a rule or of an input. */
function commandOf(value: unknown): string | undefined {
  const command = isObject(value) && Object.hasOwn(value, "command") ? value.command : undefined;
  return typeof command === "string" ? command : undefined;
}

/** Joins the rules of several layers into one. */
export function joinPermissions(layers: readonly Permissions[]): Required<Permissions> {
  return {
    allow: layers.flatMap(({ allow = [] }) => allow),
    ask: layers.flatMap(({ ask = [] }) => ask),
    deny: layers.flatMap(({ deny = [] }) => deny),
  };
}

/** The rules that descendants inherit: all that restrict. */
export function inheritedRules(layers: readonly Permissions[]): Permissions {
  const { ask, deny } = joinPermissions(layers);
  return { ask, deny };
}

type ListMatch = "some" | "every";

function matchesCall(rule: Rule, toolName: string, input: unknown, matches: ListMatch): boolean {
  if (typeof rule === "string") return matchesGlob(rule, toolName);
  if (!matchesGlob(rule.tool, toolName)) return false;
  return Object.entries(rule.input ?? {}).every(([field, glob]) => {
    const value = isObject(input) && Object.hasOwn(input, field) ? input[field] : undefined;
    if (!Array.isArray(value)) return matchesValue(glob, value);
    return value.length > 0 && value[matches]((entry) => matchesValue(glob, entry));
  });
}

function matchesValue(glob: string, value: unknown): boolean {
  if (value === undefined) return false;
  return matchesGlob(glob, typeof value === "string" ? value : JSON.stringify(value));
}

/** Whether an answer in this session has allowed a tool permanently; of a tool that takes a command, only that command. */
export function isAlwaysAllowed(
  messages: readonly Message[],
  toolName: string,
  input?: unknown,
): boolean {
  const calls = new Map<string, Pick<ToolUseBlock, "name" | "input">>();
  const approved = new Map<string, Pick<ToolUseBlock, "name" | "input"> | undefined>();
  for (const block of messages.flatMap((message) => message.content)) {
    if (block.type === "tool_use") calls.set(block.id, block);
    else if (block.type === "suspension" && block.kind !== "stop") {
      approved.set(block.approvalId, block.edited ?? calls.get(block.callId));
    } else if (block.type === "answer" && block.always && block.decision === "approve") {
      const call = approved.get(block.approvalId);
      if (call?.name === toolName && commandOf(call.input) === commandOf(input)) return true;
    }
  }
  return false;
}
