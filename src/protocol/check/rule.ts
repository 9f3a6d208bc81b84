/** The names of the rules; docs/protocol/check-stream.md explains them. */
export type Rule =
  | "I1"
  | "I2"
  | "I3"
  | "I4"
  | "I5"
  | "I6"
  | "I8"
  | "I9"
  | "I10"
  | "I11"
  | "I12"
  | "I14"
  | "I15"
  | "L3"
  | "L6"
  | "A1"
  | "A3"
  | "A5"
  | "A9"
  | "A16"
  | "A17"
  | "A20"
  | "A23"
  | "shape"
  | "word"
  | "sequence"
  | "task_seq"
  | "duplicate"
  | "edge"
  | "link"
  | "child"
  | "call"
  | "approval"
  | "reason"
  | "snapshot"
  | "surrogate"
  | "usage"
  | "frame";

/** A rule that an event breaks; `index` is the index of the event in the list. */
export interface Problem {
  readonly index: number;
  readonly rule: Rule;
  readonly message: string;
}
