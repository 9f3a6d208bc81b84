/** What the runs of a bench do: stream text, stream the text of three subagents, call tools, or wait for approvals. */
export type Workload = "flat" | "nested" | "steps" | "waiting";

/** A program that is measured, with its settings. */
export interface SideOptions {
  readonly workload: Workload;
  /** How many tokens a stream has; absent: it does not end. */
  readonly tokens?: number;
  readonly store?: "memory" | "sqlite";
}

/** A side that listens: what a client posts to start a run and read its events. */
export interface Listening {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  /** A text in the frames that have tokens. */
  readonly mark: string;
  /** The field before the text of such a frame. */
  readonly field: string;
  /** The field that tells apart the streams of a connection. */
  readonly stream?: string;
  /** Whether each frame repeats the whole text of its stream. */
  readonly repeats?: boolean;
}

/** Starts a side in this process. */
export type Start = (options: SideOptions) => Promise<Listening>;

/** The names of the subagents. */
export const children = ["a", "b", "c"] as const;
