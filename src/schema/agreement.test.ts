import { expect, expectTypeOf, it } from "vitest";
import type { z } from "zod";
import type { ErrorShape } from "../base/error.ts";
import type { Answer } from "../contract/agent.ts";
import type { Block } from "../contract/message.ts";
import type { ControlFrame, TaskEvent } from "../protocol/event.ts";
import type * as grammar from "../protocol/grammar.ts";
import { taskEventTypes } from "../protocol/grammar.ts";
import type { TypeOf } from "../protocol/shape.ts";
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
import { events } from "./frames.ts";

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

type Envelope = typeof grammar.position & typeof grammar.origin;
type LogEvents = typeof grammar.logEvents;
interface ServerFrames {
  "task.snapshot": typeof grammar.snapshot;
  error: typeof grammar.streamError;
}
type ControlFrames = typeof grammar.controlFrames;
type Frame<Type, F> = { type: Type } & TypeOf<F>;
type EventAgreement = {
  -readonly [Type in keyof LogEvents]: Same<
    Frame<Type, LogEvents[Type] & Envelope>,
    Extract<TaskEvent, { type: Type }>
  >;
} & {
  -readonly [Type in keyof ServerFrames]: Same<
    Frame<Type, ServerFrames[Type]>,
    Extract<TaskEvent, { type: Type }>
  >;
};
type FrameAgreement = {
  -readonly [Type in keyof ControlFrames]: Same<
    Frame<Type, ControlFrames[Type]>,
    Extract<ControlFrame, { type: Type }>
  >;
};
interface PartAgreement {
  annotation: Same<TypeOf<typeof grammar.annotation>, Annotation>;
  block: Same<TypeOf<typeof grammar.block>, WireBlock>;
  item: Same<TypeOf<typeof grammar.item>, Item>;
  itemChange: Same<TypeOf<typeof grammar.itemChange>, ItemChange>;
  task: Same<TypeOf<typeof grammar.taskObject>, TaskObject>;
  snapshot: Same<TypeOf<typeof grammar.snapshotTask>, SnapshotTask>;
  error: Same<TypeOf<typeof grammar.errorShape>, ErrorShape>;
  source: Same<TypeOf<typeof grammar.source>, Source>;
  sourceRef: Same<TypeOf<typeof grammar.sourceRef>, SourceRef>;
  answer: Same<z.infer<typeof answer>, Answer>;
  messageBlock: Same<z.infer<typeof messageBlock>, Block>;
}

// The compiler is the judge of these two: a difference is an error here.
it("the grammar describes the TypeScript types", () => {
  expectTypeOf<Plain<EventAgreement>>().toEqualTypeOf<{ [Type in TaskEvent["type"]]: true }>();
  expectTypeOf<FrameAgreement>().toEqualTypeOf<{ [Type in ControlFrame["type"]]: true }>();
  expectTypeOf<PartAgreement>().toExtend<Record<keyof PartAgreement, true>>();
});

it("detects a difference between types", () => {
  expectTypeOf<Same<{ a: string }, { a?: string }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: string }, { a: string; b?: number }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: { b: "x" } }, { a: { b: "x" | "y" } }>>().toEqualTypeOf<false>();
  expectTypeOf<Same<{ a: string[] }, { readonly a: readonly string[] }>>().toEqualTypeOf<true>();
});

it("has a schema for every event type, in the order of the catalogue", () => {
  expect(Object.keys(events)).toEqual(taskEventTypes);
});
