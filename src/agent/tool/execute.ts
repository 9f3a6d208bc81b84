import { after, type Clock, onAbort } from "../../base/clock.ts";
import { type ErrorShape, RivuletError, reasonOf } from "../../base/error.ts";
import { data, type Fields, readArgument, readOptions, text } from "../../base/options.ts";
import { copyPlain } from "../../base/plain.ts";
import type { Awaitable } from "../../base/time.ts";
import { cancelGraceMs, isThenable, longestTimer, whenDone } from "../../base/time.ts";
import type { Retry } from "../../contract/index.ts";
import { backoffMs, type Execution, mergeExecution, toolExecution } from "../base/execution.ts";
import { externalReason, toolErrors } from "../base/prompts.ts";
import type { SuspendOptions, ToolContext } from "./context.ts";
import { readResult, type ShownResult, textResult } from "./result.ts";
import { isToolFailure, type ToolDefinition } from "./tool.ts";

/** The outcome of a call; the result of a `suspended` call comes from outside. */
export type ToolOutcome =
  | (ShownResult & {
      readonly state: "success" | "error" | "interrupted";
      readonly error?: ErrorShape;
    })
  | ({ readonly state: "suspended"; readonly reason: string } & SuspendOptions);

/** The options of `executeTool`. */
export interface ExecuteOptions {
  readonly execution: Required<Execution>;
  /** Aborts when the task is cancelled. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Returns a number in [0, 1), for the jitter. */
  readonly random: () => number;
  /** How long a cancelled tool may take to stop. */
  readonly graceMs?: number;
  /** The work of an abandoned tool that must end before the call does; undefined: none. */
  readonly unfinished?: () => Promise<unknown> | undefined;
  /** Called before a retry. */
  readonly onRetry?: (retry: Retry) => Promise<void>;
  /** Creates the context of one attempt, which must contain `suspend` unchanged. */
  makeContext(attempt: number, signal: AbortSignal, suspend: ToolContext["suspend"]): ToolContext;
}

/** The execution settings of a tool; each field comes from the tool, else the toolkit, else the agent. */
export function executionOf(
  { execution, idempotent }: ToolDefinition,
  toolkit?: Execution,
  agent?: Execution,
): Required<Execution> {
  const base = idempotent ? { ...toolExecution, maxAttempts: 3 } : toolExecution;
  return mergeExecution(base, agent, toolkit, execution);
}

/** The most characters of a result before it is stored: enough for hooks to get it whole, and for a file. */
const maxReturned = 3_000_000;
const maxErrorMessage = 2_000;

/** Runs one call with its attempts; never throws, and abandons a tool that does not stop. */
export async function executeTool(
  definition: ToolDefinition,
  input: unknown,
  options: ExecuteOptions,
): Promise<ToolOutcome> {
  const { execute } = definition;
  if (!execute) return { state: "suspended", reason: externalReason };
  const { execution, signal, clock, random } = options;
  for (let attempt = 1; ; attempt++) {
    if (signal.aborted) return interrupted("before it began");
    const end = await runAttempt(execute, input, attempt, options);
    if (end.type === "returned") return returned(end.value);
    if (signal.aborted) return interrupted("and its effect is unknown");
    if (end.type === "suspended") return { ...end.options, state: "suspended", reason: end.reason };
    if (!(attempt < execution.maxAttempts) || !isWorthRetrying(end.error, execution))
      return failed(end);
    const delayMs = backoffMs(execution, attempt, random);
    const { code, message } = errorOf(end);
    const { name } = definition;
    await options.onRetry?.({ name, attempt, delayMs, error: { code, message } });
    try {
      await clock.sleep(delayMs, signal);
    } catch {
      return interrupted("before it was tried again");
    }
  }
}

type AttemptEnd =
  | { readonly type: "returned"; readonly value: unknown }
  | { readonly type: "suspended"; readonly reason: string; readonly options: SuspendOptions }
  | AttemptFailure;
interface AttemptFailure {
  readonly type: "threw" | "timeout" | "abandoned";
  readonly error: unknown;
}

function runAttempt(
  execute: NonNullable<ToolDefinition["execute"]>,
  input: unknown,
  attempt: number,
  { execution, signal, clock, graceMs = cancelGraceMs, unfinished, makeContext }: ExecuteOptions,
): Awaitable<AttemptEnd> {
  const stop = new AbortController(); // the tool gets its signal
  let suspended: AttemptEnd | undefined;
  const suspend: ToolContext["suspend"] = (reason, given = {}) => {
    const options = readOptions("suspend()", given, suspendFields);
    suspended ??= {
      type: "suspended",
      reason: readArgument("reason", reason, text) ?? "",
      options: copyPlain(options),
    };
    throw new Suspension();
  };
  const threw = (error: unknown): AttemptEnd => ({ type: "threw", error });
  const run = (): AttemptEnd | Promise<AttemptEnd> => {
    try {
      const value = execute(input, makeContext(attempt, stop.signal, suspend));
      if (!isThenable(value)) return { type: "returned", value };
      return Promise.resolve(value).then((value) => ({ type: "returned", value }), threw);
    } catch (error) {
      return threw(error);
    }
  };
  /** Ends an attempt that is abandoned after a cancel, or that takes too long. */
  const limit = async (running: Promise<AttemptEnd>): Promise<AttemptEnd> => {
    const { promise, resolve } = Promise.withResolvers<AttemptEnd>();
    const stops: (() => void)[] = [];
    const endAfter = (ms: number, end: () => AttemptFailure) => {
      const onTime = async () => {
        const ended = end();
        await unfinished?.();
        resolve(ended);
      };
      stops.push(after(clock, ms, onTime));
    };
    const onCancel = () => {
      stop.abort(signal.reason);
      endAfter(graceMs, () => ({ type: "abandoned", error: signal.reason }));
    };
    stops.push(onAbort(signal, onCancel));
    const { timeoutMs } = execution;
    if (timeoutMs !== null && timeoutMs <= longestTimer) {
      endAfter(timeoutMs, () => {
        // The platform's name, so that tools and `retryOn` recognise it.
        const error = new DOMException(toolErrors.timeout(timeoutMs), "TimeoutError");
        stop.abort(error);
        return { type: "timeout", error };
      });
    }
    running.then(resolve);
    const end = await promise;
    for (const stop of stops) stop();
    return end;
  };
  const started = run();
  return whenDone(started instanceof Promise ? limit(started) : started, (end) => {
    // Stops work that the failed attempt has left running.
    if (end.type === "threw") stop.abort(end.error);
    // A tool that catches the exception of suspend() is suspended all the same.
    return suspended ?? end;
  });
}

const suspendFields: Fields<SuspendOptions> = { responseSchema: data, resume: data };

/** Thrown by `suspend`, so that nothing after it runs. */
class Suspension extends Error {
  override readonly name = "Suspension";
}

function isWorthRetrying(error: unknown, { retryOn }: Required<Execution>): boolean {
  try {
    return retryOn(error) === true;
  } catch {
    return false;
  }
}

function returned(value: unknown): ToolOutcome {
  const result = readResult(value, maxReturned);
  if (result.ok) {
    const { ok: _, ...shown } = result;
    return { state: "success", ...shown };
  }
  const { message } = result;
  return failure("error", toolErrors.failed(message), shapeOf("invalid_result", message));
}

function errorOf({ type, error }: AttemptFailure): ErrorShape {
  return shapeOf(type === "timeout" ? "tool_timeout" : "tool_failed", error);
}

function failed(end: AttemptFailure): ToolOutcome {
  const { type, error } = end;
  const shape = errorOf(end);
  const isReadable = type === "timeout" || isToolFailure(error);
  const text = isReadable ? shape.message : toolErrors.failed(reasonOf(error));
  return failure("error", text, shape);
}

function interrupted(when: string): ToolOutcome {
  const message = toolErrors.interrupted(when);
  return failure("interrupted", message, shapeOf("interrupted", message));
}

function failure(state: "error" | "interrupted", text: string, error: ErrorShape): ToolOutcome {
  return { state, ...textResult(text, maxReturned), error };
}

/** The error for records and events, shortened and without its stack. */
function shapeOf(code: string, error: unknown): ErrorShape {
  const message = reasonOf(error).slice(0, maxErrorMessage);
  try {
    if (error instanceof RivuletError) return { ...error.toJSON(), message };
  } catch {
    // A hostile value may throw even when it is inspected.
  }
  return { code, message, retryable: false };
}
