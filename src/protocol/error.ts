/** Where in a tree of tasks something went wrong. */
export interface ErrorPlace {
  readonly taskId?: string;
  readonly path?: string;
}

/** The one error shape of every surface: records, events, HTTP bodies and thrown errors. */
export interface ErrorShape {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly where?: ErrorPlace;
  readonly hint?: string;
}

/** What a `RivuletError` may carry besides its code and message. */
export interface RivuletErrorOptions {
  readonly retryable?: boolean;
  readonly where?: ErrorPlace;
  readonly hint?: string;
  readonly cause?: unknown;
}

/** Every error that Rivulet throws on purpose: a literal code to branch on, a sentence to read and a hint to act on. */
export class RivuletError<Code extends string = string> extends Error implements ErrorShape {
  readonly code: Code;
  readonly retryable: boolean;
  readonly where?: ErrorPlace;
  readonly hint?: string;

  constructor(code: Code, message: string, options: RivuletErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "RivuletError";
    this.code = code;
    this.retryable = options.retryable ?? false;
    if (options.where !== undefined) this.where = options.where;
    if (options.hint !== undefined) this.hint = options.hint;
  }

  /** The same error, with the place where it came up; one that has a place keeps it. */
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

/** Whatever was thrown, as an error of Rivulet: what is one already stays as it is, anything else is its cause. */
export function rivuletErrorOf(thrown: unknown, code = "internal"): RivuletError {
  if (thrown instanceof RivuletError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new RivuletError(code, message, { cause: thrown });
}
