/** The names of the rules; docs/protocol/check-stream.md explains them. */
export type Rule =
  | `I${1 | 2 | 3 | 4 | 5 | 6 | 8 | 9 | 10 | 11 | 12 | 14 | 15}`
  | `A${1 | 3 | 5 | 9 | 16 | 17 | 20 | 23}`
  | `L${3 | 6}`
  | ("shape" | "word" | "sequence" | "task_seq" | "duplicate" | "frame" | "snapshot")
  | ("edge" | "link" | "child" | "call" | "approval" | "reason" | "usage" | "surrogate");

/** A rule that an event breaks; `index` is the index of the event in the list. */
export interface Problem {
  readonly index: number;
  readonly rule: Rule;
  readonly message: string;
}
