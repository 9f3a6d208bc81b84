import type { Clock } from "../../protocol/clock.ts";
import { type ErrorShape, RivuletError } from "../../protocol/error.ts";
import type { Block } from "../../protocol/message.ts";
import type { WireBlock } from "../../protocol/task.ts";
import { after } from "../after.ts";
import {
  backoffMs,
  type Execution,
  longestTimer,
  mergeExecution,
  toolExecution,
} from "../execution.ts";
import { cancelGraceMs } from "../until-cancelled.ts";
import type { ToolContext } from "./context.ts";
import { readResult, reasonOf, textResult } from "./result.ts";
import type { ToolDefinition } from "./tool.ts";
import { isToolFailure } from "./tool-failure.ts";

/** What a call came to; `suspended` is not an end: its result comes from outside. */
export type ToolOutcome =
  | {
      readonly state: "success" | "error" | "interrupted";
      /** What the model reads. */
      readonly content: readonly Block[];
      /** What people see, when the tool itself said so; else it is what the model reads. */
      readonly display?: readonly WireBlock[];
      readonly error?: ErrorShape;
      readonly metadata?: Readonly<Record<string, unknown>>;
    }
  | { readonly state: "suspended"; readonly reason: string };

/** How one call is executed. */
export interface ExecuteOptions {
  readonly execution: Required<Execution>;
  /** Aborts when the task is cancelled. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** A number in [0, 1), for the jitter. */
  readonly random: () => number;
  /** How long a cancelled tool may take to stop. */
  readonly graceMs?: number;
  /** What a tool that is left to itself has started and that must end first; undefined: nothing. */
  readonly unfinished?: () => Promise<unknown> | undefined;
  readonly maxCharacters?: number;
  /** Called when an attempt has failed and another will be made. */
  readonly onRetry?: () => Promise<void>;
  /** The context of one attempt; `suspend` is to be put into it as it is. */
  makeContext(attempt: number, signal: AbortSignal, suspend: ToolContext["suspend"]): ToolContext;
}

/** The settings of one tool's calls: the tool's over the toolkit's over the agent's, field by field. */
export function executionOf(
  { execution, idempotent }: ToolDefinition,
  toolkit?: Execution,
  agent?: Execution,
): Required<Execution> {
  const base = idempotent ? { ...toolExecution, maxAttempts: 3 } : toolExecution;
  return mergeExecution(base, agent, toolkit, execution);
}

/** Why a call of an external tool waits. */
export const externalReason = "[Awaiting external execution]";

/** What is kept of a result until it is stored: so much that hooks get it whole, and a file can hold it. */
const maxReturned = 3_000_000;
const maxErrorMessage = 2_000;

/**
 * Runs one call to its outcome: attempts, time limits, cancel and suspension. Whatever the tool does, it neither throws
 * nor leaves a timer or a listener behind; a tool that does not stop is left to itself and not heard any more.
 */
export async function executeTool(
  definition: ToolDefinition,
  input: unknown,
  options: ExecuteOptions,
): Promise<ToolOutcome> {
  const { execute } = definition;
  if (!execute) return { state: "suspended", reason: externalReason };
  const { execution, signal, clock, random, maxCharacters = maxReturned } = options;
  for (let attempt = 1; ; attempt++) {
    if (signal.aborted) return interrupted("before it began");
    const end = await runAttempt(execute, input, attempt, options);
    const metadata = attempt > 1 ? { attempts: attempt } : {};
    if (end.type === "returned") return returned(end.value, metadata, maxCharacters);
    if (signal.aborted) return interrupted("and its effect is unknown");
    if (end.type === "suspended") return { state: "suspended", reason: end.reason };
    if (!(attempt < execution.maxAttempts) || !isWorthAnother(end.error, execution)) {
      return failed(end, metadata, maxCharacters);
    }
    await options.onRetry?.();
    try {
      await clock.sleep(backoffMs(execution, attempt, random), signal);
    } catch {
      return interrupted("before it was tried again");
    }
  }
}

type AttemptEnd =
  | { readonly type: "returned"; readonly value: unknown }
  | { readonly type: "suspended"; readonly reason: string }
  | AttemptFailure;
interface AttemptFailure {
  readonly type: "threw" | "timeout" | "abandoned";
  readonly error: unknown;
}

async function runAttempt(
  execute: NonNullable<ToolDefinition["execute"]>,
  input: unknown,
  attempt: number,
  { execution, signal, clock, graceMs = cancelGraceMs, unfinished, makeContext }: ExecuteOptions,
): Promise<AttemptEnd> {
  const stop = new AbortController(); // what the tool hears
  const clocks: (() => void)[] = []; // what ends our own waiting
  let suspended: AttemptEnd | undefined;
  const suspend = (reason: string): never => {
    suspended ??= { type: "suspended", reason: String(reason) };
    throw new Suspension();
  };
  const run = async (): Promise<AttemptEnd> => {
    try {
      const value = await execute(input, makeContext(attempt, stop.signal, suspend));
      return { type: "returned", value };
    } catch (error) {
      return { type: "threw", error };
    }
  };
  let onAbort = () => {};
  const end = await new Promise<AttemptEnd>((resolve) => {
    const endAfter = (ms: number, end: () => AttemptFailure) => {
      const stopClock = after(clock, ms, async () => {
        const ended = end();
        await unfinished?.();
        resolve(ended);
      });
      clocks.push(stopClock);
    };
    onAbort = () => {
      stop.abort(signal.reason);
      endAfter(graceMs, () => ({ type: "abandoned", error: signal.reason }));
    };
    signal.addEventListener("abort", onAbort, { once: true });
    const { timeoutMs } = execution;
    if (timeoutMs !== null && timeoutMs <= longestTimer) {
      endAfter(timeoutMs, () => {
        const error = timeoutError(timeoutMs);
        stop.abort(error);
        return { type: "timeout", error };
      });
    }
    run().then(resolve);
  });
  signal.removeEventListener("abort", onAbort);
  for (const stopClock of clocks) stopClock();
  // What it has left running belongs to no attempt any more.
  if (end.type === "threw") stop.abort(end.error);
  // A tool that swallowed what suspend() threw is suspended all the same.
  return suspended ?? end;
}

/** What `suspend` throws, so that nothing after it runs. A tool that catches it changes nothing. */
class Suspension extends Error {
  override readonly name = "Suspension";
}

/** Named as the platform names it, so that tools and `retryOn` can tell. */
function timeoutError(timeoutMs: number): Error {
  return new DOMException(`Tool execution timeout after ${timeoutMs / 1_000}s`, "TimeoutError");
}

function isWorthAnother(error: unknown, { retryOn }: Required<Execution>): boolean {
  try {
    return retryOn(error) === true;
  } catch {
    return false;
  }
}

type Metadata = Readonly<Record<string, unknown>>;

function returned(value: unknown, metadata: Metadata, maxCharacters?: number): ToolOutcome {
  const result = readResult(value, maxCharacters);
  if (!result.ok) {
    return unsuccessful("error", `Tool execution failed: ${result.message}`, {
      error: shapeOf("invalid_result", result.message),
      metadata,
      maxCharacters,
    });
  }
  const { content, display, cutFrom } = result;
  const said = cutFrom === undefined ? metadata : { ...metadata, cutFrom };
  return { state: "success", content, ...(display && { display }), ...withMetadata(said) };
}

function failed(
  { type, error }: AttemptFailure,
  metadata: Metadata,
  maxCharacters?: number,
): ToolOutcome {
  const shape = shapeOf(type === "timeout" ? "tool_timeout" : "tool_failed", error);
  const isPhrased = type === "timeout" || isToolFailure(error);
  const text = isPhrased ? shape.message : `Tool execution failed: ${reasonOf(error)}`;
  return unsuccessful("error", text, { error: shape, metadata, maxCharacters });
}

function interrupted(when: string): ToolOutcome {
  const message = `Tool execution was interrupted ${when}.`;
  return unsuccessful("interrupted", message, { error: shapeOf("interrupted", message) });
}

function unsuccessful(
  state: "error" | "interrupted",
  text: string,
  told: { error: ErrorShape; metadata?: Metadata; maxCharacters?: number | undefined },
): ToolOutcome {
  const { content } = textResult(text, told.maxCharacters);
  return { state, content, error: told.error, ...withMetadata(told.metadata ?? {}) };
}

/** The error for records and events: short, and without the stack. */
function shapeOf(code: string, error: unknown): ErrorShape {
  const message = reasonOf(error).slice(0, maxErrorMessage);
  try {
    if (error instanceof RivuletError) return { ...error.toJSON(), message };
  } catch {
    // Whatever it is, it is not ours.
  }
  return { code, message, retryable: false };
}

function withMetadata(metadata: Metadata): { metadata?: Metadata } {
  return Object.keys(metadata).length > 0 ? { metadata } : {};
}
