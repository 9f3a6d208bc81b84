import { RivuletError, reasonOf } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Fields, invalid, nearest, readOptions, unknownField } from "../../base/options.ts";
import { copyPlain, isObject, isPlainObject, isSame } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import { isCancel, isThenable, patienceOf, untilCancelled } from "../../base/time.ts";
import {
  type ActingVerdict,
  type Block,
  type Hook,
  isBlocks,
  isMessage,
  type Message,
  type ModelCall,
  type ReasoningVerdict,
  type Reply,
  resultState,
  type ToolCall,
  type ToolResult,
  type ToolResultState,
  textOf,
} from "../../contract/index.ts";
import { toolsField } from "../tool/tool.ts";
import type { AgentSettings } from "./settings.ts";
import type { TaskControl, TaskRun } from "./task-run.ts";

type AwaitedPoint = Exclude<
  keyof Hook,
  "name" | "priority" | "tools" | "reasoningChunk" | "actingChunk"
>;
type EditingPoint = "preReasoning" | "preSummary";

/** The part of a task that its hooks need. */
interface HookedTask {
  readonly settings: Pick<AgentSettings, "hooks" | "clock">;
  readonly control: Pick<TaskControl, "controller" | "cancelledAt">;
}

const hookFields: Fields<Hook> = {
  name: is.text,
  priority: is.number("a number"),
  tools: toolsField,
  preCall: is.callback,
  preTurn: is.callback,
  preReasoning: is.callback,
  reasoningChunk: is.callback,
  postReasoning: is.callback,
  preActing: is.callback,
  actingChunk: is.callback,
  postActing: is.callback,
  preSummary: is.callback,
  postSummary: is.callback,
  postCall: is.callback,
  onError: is.callback,
};
const fieldNames = Object.keys(hookFields);

/** Throws if a value is not a hook, or if an object literal has a function that is no hook point. */
export function checkHook(hook: unknown): void {
  const { name } = isObject(hook) ? hook : {};
  if (!isObject(hook) || typeof name !== "string" || name.trim() === "") {
    throw invalid("A hook requires a name.", 'Pass `{ name: "audit", preActing() { … } }`.');
  }
  const owner = `The hook ${name}`;
  if (isPlainObject(hook)) {
    const unknown = Object.keys(hook).find(
      (key) => !fieldNames.includes(key) && typeof hook[key] === "function",
    );
    if (unknown !== undefined) throw unknownField(owner, unknown, fieldNames);
  }
  const fields = fieldNames.map((field) => [field, hook[field]]);
  readOptions(owner, Object.fromEntries(fields), hookFields, `${owner}: `);
}

/** Sorts hooks into the order in which they are called. */
export function inOrder(hooks: readonly Hook[]): readonly Hook[] {
  return hooks.toSorted((a, b) => (a.priority ?? 100) - (b.priority ?? 100));
}

/** The settings for a call that has hooks of its own; they come after those of the agent and bring their tools. */
export function withHooks(settings: AgentSettings, hooks?: readonly Hook[]): AgentSettings {
  if (hooks === undefined) return settings;
  for (const hook of hooks) checkHook(hook);
  const { toolkit } = settings;
  const tools = hooks.flatMap((hook) => hook.tools ?? []);
  return {
    ...settings,
    hooks: inOrder([...settings.hooks, ...hooks]),
    toolkit: tools.length > 0 ? toolkit.with(tools) : toolkit,
  };
}

/** Calls a point's hooks in order; `visit` reads each return value and makes the value for the next hook. */
export function callHooks<Point extends AwaitedPoint, Value>(
  task: HookedTask,
  point: Point,
  value: Value,
  call: (hook: Hook, value: Value) => Awaitable<unknown>,
  visit: (value: Value, returned: unknown) => Value = (unchanged) => unchanged,
  signal = task.control.controller.signal,
): Awaitable<Value> {
  const hooks = hooksAt(task.settings.hooks, point);
  if (hooks.length === 0) return value;
  const read = (current: Value, returned: unknown) =>
    returned === undefined || returned === null ? current : visit(current, returned);
  const failure = (hook: Hook, error: unknown) =>
    isCancel(signal, error) ? error : hookFailed(hook, point, error);

  /** Waits only for a hook that returns a promise. */
  function callFrom(index: number, current: Value): Awaitable<Value> {
    let next = current;
    for (let at = index; at < hooks.length; at++) {
      const hook = hooks[at] as Hook;
      try {
        const returned = call(hook, next);
        if (isThenable(returned)) return waitFor(returned, at, next);
        next = read(next, returned);
      } catch (error) {
        return Promise.reject(failure(hook, error));
      }
    }
    return next;
  }

  async function waitFor(returned: Awaitable<unknown>, at: number, current: Value): Promise<Value> {
    let next: Value;
    try {
      next = read(current, await untilCancelled(patienceOf(task, signal), () => returned));
    } catch (error) {
      throw failure(hooks[at] as Hook, error);
    }
    return callFrom(at + 1, next);
  }

  return callFrom(0, value);
}

/** The hooks that have a point, in order. */
export function hooksAt(hooks: readonly Hook[], point: keyof Hook): readonly Hook[] {
  return hooks.length === 0 ? hooks : hooks.filter((hook) => hook[point]);
}

function hookFailed(hook: Hook, point: string, error: unknown): RivuletError {
  if (error instanceof RivuletError && error.code === "hook_failed") return error;
  const message = `Hook ${hook.name} failed in ${point}: ${reasonOf(error)}`;
  const hint = "Catch errors inside the hook if the run should continue.";
  return new RivuletError("hook_failed", message, { cause: error, hint });
}

/** Calls hooks that are not awaited, and ignores their errors. */
export function tellHooks(hooks: readonly Hook[], tell: (hook: Hook) => unknown): void {
  for (const hook of hooks) tellAnyway(() => tell(hook));
}

/** Calls a function without awaiting it, and ignores its errors. */
export function tellAnyway(tell: () => unknown): void {
  try {
    const returned = tell();
    if (returned instanceof Promise) returned.catch(() => {});
  } catch {
    // The observer must not break the loop.
  }
}

/** Lets hooks edit copies of a model call; messages are copied on first access, because few hooks read them. */
export function editModelCall(
  task: TaskRun,
  point: EditingPoint,
  call: ModelCall,
): Awaitable<ModelCall> {
  return hooksAt(task.settings.hooks, point).length > 0 ? editedCall(task, point, call) : call;
}

async function editedCall(task: TaskRun, point: EditingPoint, call: ModelCall): Promise<ModelCall> {
  let copies: readonly Message[] = [];
  let messages: Message[] | undefined;
  const own: ModelCall = {
    get messages() {
      if (messages === undefined) {
        copies = call.messages.map(copyMessage);
        messages = [...copies];
      }
      return messages;
    },
    set messages(edited) {
      messages = edited;
    },
    systemPrompt: call.systemPrompt,
    tools: [...call.tools],
    options: copyPlain(call.options),
  };
  const edited = await callHooks(
    task,
    point,
    own,
    (hook, current) => hook[point]?.(task.scope.hookContext, current),
    (current, returned) => readModelCall(returned, current),
  );
  const isUnread = edited === own && messages === undefined;
  const { systemPrompt, tools, options } = edited;
  const read = isUnread ? [] : edited.messages;
  // Returned calls are checked on return, calls edited in place only here.
  if (!isModelCall({ messages: read, systemPrompt, tools, options })) {
    const editors = hooksAt(task.settings.hooks, point);
    const names = editors.map(({ name }) => name).join(", ");
    throw new RivuletError("hook_failed", `The model call is invalid after ${point} of ${names}.`, {
      hint: "Keep messages, system, tools and options valid when a hook edits the call in place.",
    });
  }
  const kept = isUnread ? call.messages : restoreOriginals(read, copies, call.messages);
  return { messages: kept, systemPrompt, tools, options };
}

const messageCopies = new WeakMap<Message, Message>();

/** Copies a message; an unchanged copy is reused for the next call. */
function copyMessage(message: Message): Message {
  const last = messageCopies.get(message);
  if (last && isSame(last, message)) return last;
  const copy = copyPlain(message);
  messageCopies.set(message, copy);
  return copy;
}

/** Replaces unchanged copies by the original messages, whose prompts are cached. */
function restoreOriginals(
  messages: readonly Message[],
  copies: readonly Message[],
  originals: readonly Message[],
): Message[] {
  const places = new Map(copies.map((copy, index) => [copy, index]));
  return messages.map((message) => {
    const original = originals[places.get(message) ?? -1];
    return original && isSame(message, original) ? original : message;
  });
}

/** Reads a model call that a hook returned; messages that it was given need no check. */
function readModelCall(returned: unknown, given: ModelCall): ModelCall {
  const isGiven = (message: unknown, index: number) => message === given.messages[index];
  if (isModelCall(returned, isGiven)) {
    const unknown = Object.keys(returned).find((key) => !(key in given));
    if (unknown === undefined) return returned;
    const [near = "options"] = nearest(unknown, Object.keys(given));
    throw new Error(
      `it returned \`${unknown}\`, which a model call does not have. Did you mean \`${near}\`?`,
    );
  }
  throw unexpected(returned, "a model call with messages, system, tools and options");
}

function isModelCall(
  value: unknown,
  isChecked: (message: unknown, index: number) => boolean = () => false,
): value is ModelCall {
  return (
    isObject(value) &&
    Array.isArray(value.messages) &&
    value.messages.every((message, index) => isChecked(message, index) || isMessage(message)) &&
    typeof value.systemPrompt === "string" &&
    Array.isArray(value.tools) &&
    value.tools.every(isNamed) &&
    isObject(value.options)
  );
}

function isNamed(tool: unknown): boolean {
  return typeof tool === "object" && typeof (tool as { name?: unknown } | null)?.name === "string";
}

/** Reads the return value of `postReasoning`. */
export function readReasoningVerdict(
  returned: unknown,
): NonNullable<ReasoningVerdict> | { readonly stop: boolean } {
  if (isStop(returned)) return returned;
  if (isObject(returned) && "gotoReasoning" in returned) {
    const { gotoReasoning: messages } = returned;
    if (Array.isArray(messages) && messages.every(isMessage)) return { gotoReasoning: messages };
  } else if (isReply(returned)) return returned;
  throw unexpected(returned, "a message, { stop: true } or { gotoReasoning: messages }");
}

/** Reads the return value of `postSummary`. */
export function readReply(returned: unknown): Message {
  if (isReply(returned)) return returned;
  throw unexpected(returned, "a message");
}

const editable = new Set(["id", "role", "name", "content", "text", "metadata"]);

/** Reads the return value of `postCall`: only the content and the metadata of a reply can change. */
export function readReplyVerdict(given: Reply<unknown>, returned: unknown): Reply<unknown> {
  const message: Message & { readonly text?: string } = readReply(returned);
  for (const [key, value] of Object.entries(message)) {
    if (!editable.has(key) && !isSame(value, given[key as keyof Reply]))
      throw new Error(
        `it changed \`${key}\`; only \`content\`, \`text\` and \`metadata\` can change.`,
      );
  }
  const { content, text = given.text, metadata = given.metadata } = message;
  const isTextNew = text !== given.text;
  const isContentNew = !isSame(content, given.content);
  if (isContentNew && isTextNew && text !== textOf(content))
    throw new Error("it returned a `text` that is not the text of its `content`.");
  if (given.structured !== undefined && (isContentNew || isTextNew))
    throw new Error("it changed a structured answer; change it in `postReasoning`.");
  const edited = isTextNew && !isContentNew ? withText(content, text) : content;
  return { ...given, content: edited, text: textOf(edited), ...(metadata && { metadata }) };
}

function withText(content: readonly Block[], text: string): readonly Block[] {
  return [...content.filter(({ type }) => type !== "text"), { type: "text", text }];
}

/** Reads the return value of `preActing`. */
export function readActingVerdict(returned: unknown): NonNullable<ActingVerdict> {
  const { result, state = "success", name } = isObject(returned) ? returned : {};
  if ((typeof result === "string" || isBlocks(result)) && resultState.fits(state))
    return { result, state: state as ToolResultState };
  if (isObject(returned) && !("result" in returned) && typeof name === "string" && name !== "") {
    return returned as unknown as ToolCall;
  }
  throw unexpected(returned, "a call with a name, or { result: text or blocks, state? }");
}

/** Reads the return value of `postActing`. */
export function readResultVerdict(returned: unknown): ToolResult | { readonly stop: boolean } {
  if (isStop(returned)) return returned;
  if (isObject(returned) && resultState.fits(returned.state) && isBlocks(returned.output)) {
    return returned as unknown as ToolResult;
  }
  throw unexpected(returned, "a result with state and output, or { stop: true }");
}

/** `{ stop: false }` is valid and has no effect. */
function isStop(returned: unknown): returned is { readonly stop: boolean } {
  return isObject(returned) && typeof returned.stop === "boolean";
}

/** Two calls of a reply cannot share an id, because it identifies their results. */
function isReply(returned: unknown): returned is Message {
  if (!isObject(returned) || !isBlocks(returned.content)) return false;
  const ids = returned.content.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
  return new Set(ids).size === ids.length;
}

/** The error for a value that a hook must not return. */
export function unexpected(returned: unknown, expected: string): Error {
  let got = `a ${typeof returned}`;
  try {
    const json = JSON.stringify(returned) ?? String(returned);
    got = json.length > 80 ? `${json.slice(0, 80)}…` : json;
  } catch {
    // JSON cannot hold the value.
  }
  return new Error(`it must return ${expected}, got ${got}.`);
}
