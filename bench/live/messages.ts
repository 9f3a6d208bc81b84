// What the process of a measurement and those of its server and client say to each other.
import type { Listening } from "./side.ts";

/** A request to a server. */
export type ServerRequest =
  | { readonly op: "memory" | "mark" | "stop" | "exit" }
  | { readonly op: "go"; readonly speed?: number };

/** The counters of a server process at one moment. */
export interface ServerMark {
  readonly at: number;
  readonly cpuMicros: number;
  readonly produced: number;
  /** The longest delay of the event loop since the last mark. */
  readonly stallMs: number;
}

/** The memory that a server process uses after a garbage collection. */
export interface ServerMemory {
  readonly heapBytes: number;
  readonly rssBytes: number;
}

/** What a client process does. */
export interface ClientTask extends Listening {
  readonly connections: number;
  readonly isZipped: boolean;
  /** Whether the text is that of the wheel, so that each character can be checked. */
  readonly isText: boolean;
}

/** A request to a client. */
export interface ClientRequest {
  readonly op: "reset" | "report" | "exit";
}

/** What a client process has seen since the last reset; `total` and `wrong` since its start. */
export interface ClientReport {
  readonly total: number;
  readonly wrong: readonly string[];
  readonly failed: number;
  readonly tokens: number;
  readonly bytes: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  readonly cpuMs: number;
}
