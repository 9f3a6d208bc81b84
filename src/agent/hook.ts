import type { Awaitable } from "../protocol/agent.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Block, Message, Reply, TaskRef } from "../protocol/message.ts";
import type { Source } from "../protocol/source.ts";
import type { Tool } from "./tool/tool.ts";
import { isCancel, type Patience, untilCancelled } from "./until-cancelled.ts";

/** A tool call as hooks see it. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

/** What a tool call came to, as hooks see it. */
export interface ToolResult {
  readonly state: "success" | "error" | "denied" | "interrupted";
  readonly output: readonly Block[];
  /** On an edited result, true: the edit is for the model alone, and people see what they would have seen. */
  readonly keepsDisplay?: boolean;
}

/** One model call: what it sees and may use. */
export interface ModelCall {
  messages: Message[];
  system: string;
  tools: Tool[];
  options: Record<string, unknown>;
}

/** Where a hook is called; `state` belongs to this run only. */
export interface HookContext {
  readonly agent: string;
  readonly agentId: string;
  readonly task: TaskRef;
  readonly userId?: string;
  readonly source?: Source;
  readonly messages: readonly Message[];
  readonly state: Map<string, unknown>;
}

/** Code called at named points of a run; what it returns steers. Hooks keep no state of a run on themselves. */
export interface Hook {
  readonly name: string;
  /** Lower comes first; 100 by default, ties in the order of registration. */
  readonly priority?: number;
  /** Tools that come with this hook. */
  readonly tools?: readonly Tool[];
  preCall?(context: HookContext, input: readonly Message[]): Awaitable<void>;
  preReasoning?(context: HookContext, call: ModelCall): Awaitable<ModelCall | void>;
  /** Must not throw and is not awaited: what it does never slows or breaks the loop. */
  reasoningChunk?(context: HookContext, text: string): void;
  postReasoning?(context: HookContext, message: Message): Awaitable<ReasoningVerdict | void>;
  preActing?(context: HookContext, call: ToolCall): Awaitable<ActingVerdict | void>;
  actingChunk?(context: HookContext, call: ToolCall, chunk: string | Block): void;
  postActing?(
    context: HookContext,
    call: ToolCall,
    result: ToolResult,
  ): Awaitable<ToolResult | { readonly stop: true } | void>;
  preSummary?(context: HookContext, call: ModelCall): Awaitable<ModelCall | void>;
  postSummary?(context: HookContext, message: Message): Awaitable<Message | void>;
  postCall?(context: HookContext, reply: Reply<unknown>): Awaitable<void>;
  onError?(context: HookContext, error: Error): Awaitable<void>;
}
/** After a model's reply: an edited message, a stop, or more messages and another reasoning. */
export type ReasoningVerdict =
  | Message
  | { readonly stop: true }
  | { readonly gotoReasoning: readonly Message[] }
  | undefined;
/** Before a tool: an edited call, or a result in its place. */
export type ActingVerdict = ToolCall | { readonly result: string | readonly Block[] } | undefined;

/** Points whose hooks are awaited. */
type Awaited = Exclude<
  keyof Hook,
  "name" | "priority" | "tools" | "reasoningChunk" | "actingChunk"
>;

/** Hooks in the order in which they are called. */
export function inOrder(hooks: readonly Hook[]): readonly Hook[] {
  return hooks.toSorted((one, other) => (one.priority ?? 100) - (other.priority ?? 100));
}

/** The hooks of a run, and how long they are waited for. */
export interface RunHooks extends Patience {
  readonly hooks: readonly Hook[];
}

/**
 * Calls a point's hooks one after the other. `visit` sees what each one returned, unless that is nothing, and says what
 * the next one gets. A hook that throws or returns what `visit` refuses fails the call, with its name; one that goes on
 * after a cancel is left to itself.
 */
export async function callHooks<Point extends Awaited, Value>(
  run: RunHooks,
  point: Point,
  value: Value,
  call: (hook: Hook, value: Value) => Awaitable<unknown>,
  visit: (value: Value, returned: unknown) => Value = (same) => same,
): Promise<Value> {
  let current = value;
  for (const hook of run.hooks) {
    if (hook[point] === undefined) continue;
    try {
      const returned = await untilCancelled(run, () => call(hook, current));
      if (returned !== undefined && returned !== null) current = visit(current, returned);
    } catch (error) {
      throw isCancel(run.signal, error) ? error : hookFailure(hook, point, error);
    }
  }
  return current;
}

function hookFailure(hook: Hook, point: string, error: unknown): RivuletError {
  if (error instanceof RivuletError && error.code === "hook_failed") return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new RivuletError("hook_failed", `Hook ${hook.name} failed in ${point}: ${reason}`, {
    cause: error,
    hint: "A hook that may fail should catch what it can live with.",
  });
}

/** Tells chunk hooks; a failing one is left alone. */
export function tellHooks(hooks: readonly Hook[], tell: (hook: Hook) => unknown): void {
  for (const hook of hooks) tellAnyway(() => tell(hook));
}

/** Tells somebody who is not waited for and must not break the loop, neither now nor later. */
export function tellAnyway(tell: () => unknown): void {
  try {
    const told = tell();
    if (told instanceof Promise) told.catch(() => {});
  } catch {
    // Theirs to mind.
  }
}
