import { expect, expectTypeOf, it } from "vitest";
import type { z } from "zod";
import type { Answer } from "../protocol/agent.ts";
import type { ErrorShape } from "../protocol/error.ts";
import { type ControlFrame, type TaskEvent, taskEventTypes } from "../protocol/event.ts";
import type { Block } from "../protocol/message.ts";
import type { Source, SourceRef } from "../protocol/source.ts";
import type {
  Annotation,
  Item,
  ItemChange,
  SnapshotTask,
  TaskObject,
  WireBlock,
} from "../protocol/task.ts";
import type { answer, messageBlock } from "./answer.ts";
import type { annotation, wireBlock } from "./block.ts";
import type { errorShape } from "./error.ts";
import { events } from "./event.ts";
import type { controlFrames } from "./frame.ts";
import type { item, itemChange } from "./item.ts";
import type { source, sourceRef } from "./source.ts";
import type { snapshotTask, taskObject } from "./task.ts";

/** A type without `readonly`, and without the open end that schemas have and most types do not name. */
type Plain<T> = T extends readonly (infer Element)[]
  ? Plain<Element>[]
  : T extends object
    ? keyof Named<T> extends never
      ? { -readonly [Key in keyof T]: T[Key] }
      : { -readonly [Key in keyof Named<T>]: Plain<Named<T>[Key]> }
    : T;
type Named<T> = { [Key in keyof T as string extends Key ? never : Key]: T[Key] };
/** Whether two types say the same, optional keys included; assignability both ways would overlook a missing one. */
type Same<A, B> =
  (<T>() => T extends Plain<A> ? 1 : 2) extends <T>() => T extends Plain<B> ? 1 : 2 ? true : false;

type EventAgreement = {
  [Type in keyof typeof events]: Same<
    z.infer<(typeof events)[Type]>,
    Extract<TaskEvent, { type: Type }>
  >;
};
type FrameAgreement = {
  [Type in keyof typeof controlFrames]: Same<
    z.infer<(typeof controlFrames)[Type]>,
    Extract<ControlFrame, { type: Type }>
  >;
};
interface PartAgreement {
  annotation: Same<z.infer<typeof annotation>, Annotation>;
  block: Same<z.infer<typeof wireBlock>, WireBlock>;
  item: Same<z.infer<typeof item>, Item>;
  itemChange: Same<z.infer<typeof itemChange>, ItemChange>;
  task: Same<z.infer<typeof taskObject>, TaskObject>;
  snapshot: Same<z.infer<typeof snapshotTask>, SnapshotTask>;
  error: Same<z.infer<typeof errorShape>, ErrorShape>;
  source: Same<z.infer<typeof source>, Source>;
  sourceRef: Same<z.infer<typeof sourceRef>, SourceRef>;
  answer: Same<z.infer<typeof answer>, Answer>;
  messageBlock: Same<z.infer<typeof messageBlock>, Block>;
}

// The compiler is the judge of these two: a difference is an error here.
it("says in schemas what the types say", () => {
  expectTypeOf<EventAgreement>().toEqualTypeOf<{ [Type in TaskEvent["type"]]: true }>();
  expectTypeOf<FrameAgreement>().toEqualTypeOf<{ [Type in ControlFrame["type"]]: true }>();
  expectTypeOf<PartAgreement>().toExtend<Record<keyof PartAgreement, true>>();
});

it("would notice a difference", () => {
  expectTypeOf<Same<{ a: string }, { a?: string }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: string }, { a: string; b?: number }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: { b: "x" } }, { a: { b: "x" | "y" } }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: string[] }, { readonly a: readonly string[] }>>().toEqualTypeOf<true>();
});

it("has a schema for every type of the catalogue, in its order, and no other", () => {
  expect(Object.keys(events)).toEqual(taskEventTypes);
});
