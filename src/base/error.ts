/** The place of an error in a tree of tasks. */
export interface ErrorPlace {
  readonly taskId?: string;
  readonly path?: string;
}

/** The error shape of records, events, HTTP bodies and thrown errors. */
export interface ErrorShape {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly where?: ErrorPlace;
  readonly hint?: string;
}

/** The options of a `RivuletError`. */
export interface RivuletErrorOptions {
  readonly retryable?: boolean;
  readonly where?: ErrorPlace;
  readonly hint?: string;
  readonly cause?: unknown;
}

/** An error of Rivulet: a code to branch on, a message, and a hint that says what to do. */
export class RivuletError<Code extends string = string> extends Error implements ErrorShape {
  readonly code: Code;
  readonly retryable: boolean;
  readonly where?: ErrorPlace;
  readonly hint?: string;

  constructor(code: Code, message: string, options: RivuletErrorOptions = {}) {
    const { cause, retryable = false, where, hint } = options ?? {};
    super(String(message), cause === undefined ? undefined : { cause });
    this.name = "RivuletError";
    this.code = code;
    this.retryable = retryable;
    if (where !== undefined) this.where = where;
    if (hint !== undefined) this.hint = hint;
  }

  /** Returns this error with a place, unless it has one. */
  at(where: ErrorPlace): RivuletError<Code> {
    if (this.where !== undefined) return this;
    const { code, message, retryable, hint, cause, stack } = this;
    const more = { retryable, where, cause, ...(hint !== undefined && { hint }) };
    const placed = new RivuletError(code, message, more);
    if (stack !== undefined) placed.stack = stack;
    return placed;
  }

  /** The plain shape, without stack and cause: safe to store and to send. */
  toJSON(): ErrorShape {
    return {
      code: this.code,
      message: this.message,
      retryable: this.retryable,
      ...(this.where && { where: this.where }),
      ...(this.hint !== undefined && { hint: this.hint }),
    };
  }
}

/** Returns a thrown value as a `RivuletError`; any other value becomes its cause. */
export function rivuletErrorOf(thrown: unknown, code = "internal"): RivuletError {
  if (thrown instanceof RivuletError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new RivuletError(code, message, { cause: thrown });
}

type Entry = (abstract new (...args: never[]) => unknown) | ((...args: never[]) => unknown);

/** Runs `work`, which `entry` calls. The stack of a `RivuletError` that it throws begins at the caller of `entry`. */
export function withCallerStack<T>(entry: Entry, work: () => T): T {
  try {
    return work();
  } catch (error) {
    // Ten frames of our own would hide the line to correct.
    if (error instanceof RivuletError) Error.captureStackTrace?.(error, entry);
    throw error;
  }
}

const withCaller = new WeakSet<RivuletError>();

/**
 * Captures the stack of a call. The returned function adds it to an error of work that outlives the call, whose own stack
 * ends in our code. An error of several calls gets the stack of one of them.
 */
export function captureCaller(): (error: unknown) => void {
  const captured = { stack: "" };
  Error.captureStackTrace?.(captured, captureCaller);
  return (error) => {
    if (!(error instanceof RivuletError) || withCaller.has(error)) return;
    withCaller.add(error);
    error.stack += captured.stack.replace(/.*/, ""); // without its first line, a message
  };
}

/** The message of a thrown value of any type. Never throws. */
export function reasonOf(thrown: unknown): string {
  try {
    if (typeof thrown === "object" && thrown !== null) {
      const { message, name } = thrown as { message?: unknown; name?: unknown };
      if (typeof message === "string" && message !== "") return message;
      // An error class that sets no name inherits "Error", which says less than its own.
      if (name === "Error") return thrown.constructor.name;
      return typeof name === "string" && name !== "" ? name : JSON.stringify(thrown);
    }
    return typeof thrown === "string" && thrown !== "" ? thrown : `${String(thrown)} was thrown`;
  } catch {
    return "the thrown value cannot be read";
  }
}

/** Handles a failed import: throws `code` if it is an optional package that is missing, and any other error as it is. */
export function onMissing(code: string, needs: string, name: string): (cause: unknown) => never {
  return (cause) => {
    if (!String((cause as Error).message).includes(name)) throw cause;
    const message = `${needs} the package ${name}, which is not installed.`;
    throw new RivuletError(code, message, { hint: `Run \`npm i ${name}\`.`, cause });
  };
}

/** The error for a session or a task that does not exist, or that belongs to another user. */
export function notFound(kind: "session" | "task", id: string): RivuletError<"not_found"> {
  return new RivuletError("not_found", `There is no ${kind} ${id}.`, {
    hint: `Pass the id of a ${kind} that was started with the same userId.`,
  });
}
