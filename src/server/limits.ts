import type { Clock } from "../protocol/clock.ts";
import { RivuletError } from "../protocol/error.ts";
import type { Fields } from "../protocol/options.ts";
import * as is from "../protocol/options.ts";

/** The limits of a server. */
export interface ServerLimits {
  /** The largest body of a request, in bytes; defaults to 1 MB. */
  readonly bodyBytes?: number;
  /** How many requests a user may send per second, on average; ten times as many may come at once. Defaults to 100. */
  readonly requestsPerSecond?: number;
  /** How many streams a user may have open; defaults to 100. */
  readonly streams?: number;
  /** How many unsent bytes a stream may have before it is closed; defaults to 4 MiB. */
  readonly bufferBytes?: number;
  /** How long a stream may be open before it is closed and resumed; defaults to one hour. */
  readonly streamMs?: number;
}

/** The rules for `limits`. */
export const limitFields: Fields<ServerLimits> = {
  bodyBytes: is.count,
  requestsPerSecond: is.count,
  streams: is.count,
  bufferBytes: is.count,
  streamMs: is.duration,
};

const defaults: Required<ServerLimits> = {
  bodyBytes: 1_000_000,
  requestsPerSecond: 100,
  streams: 100,
  bufferBytes: 4 * 1024 * 1024,
  streamMs: 60 * 60_000,
};

/** The limits with defaults. */
export function limitsOf(given: ServerLimits = {}): Required<ServerLimits> {
  return { ...defaults, ...given };
}

interface Usage {
  /** How many requests are left. */
  requests: number;
  at: number;
  streams: number;
}

/** Counts what each user takes. */
export class UserLimits {
  readonly #limits: Required<ServerLimits>;
  readonly #clock: Pick<Clock, "now">;
  readonly #users = new Map<string, Usage>();

  constructor(limits: Required<ServerLimits>, clock: Pick<Clock, "now">) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Counts a request; throws `rate_limited`. */
  request(userId = ""): void {
    const { requestsPerSecond: rate } = this.#limits;
    const user = this.#usage(userId);
    const now = this.#clock.now();
    user.requests = Math.min(10 * rate, user.requests + ((now - user.at) / 1_000) * rate);
    user.at = now;
    if (user.requests < 1) throw limited("rate_limited", `more than ${rate} requests per second`);
    user.requests -= 1;
  }

  /** Counts a stream; throws `too_many_streams`. Returns the function that ends it. */
  stream(userId = ""): () => void {
    const { streams: most } = this.#limits;
    const user = this.#usage(userId);
    if (user.streams >= most) throw limited("too_many_streams", `${most} streams open`);
    user.streams += 1;
    let isOpen = true;
    return () => {
      if (isOpen) user.streams -= 1;
      isOpen = false;
    };
  }

  #usage(userId: string): Usage {
    const found = this.#users.get(userId);
    if (found) return found;
    this.#forget();
    const user = {
      requests: 10 * this.#limits.requestsPerSecond,
      at: this.#clock.now(),
      streams: 0,
    };
    this.#users.set(userId, user);
    return user;
  }

  /** Users that have been silent for long start afresh anyway. */
  #forget(): void {
    if (this.#users.size < 10_000) return;
    const now = this.#clock.now();
    for (const [id, { at, streams }] of this.#users)
      if (streams === 0 && now - at > 10_000) this.#users.delete(id);
  }
}

function limited(code: string, what: string): RivuletError {
  return new RivuletError(code, `This user has ${what}.`, {
    retryable: true,
    hint: "Wait a second and try again.",
  });
}
