import { expect, expectTypeOf, it } from "vitest";
import type { z } from "zod";
import type { ErrorShape } from "../base/error.ts";
import type { Answer } from "../contract/agent.ts";
import type { Block } from "../contract/message.ts";
import type * as grammar from "../protocol/grammar/index.ts";
import { taskEventTypes } from "../protocol/grammar/index.ts";
import type { TypeOf } from "../protocol/shape.ts";
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

interface PartAgreement {
  error: Same<TypeOf<typeof grammar.errorShape>, ErrorShape>;
  answer: Same<z.infer<typeof answer>, Answer>;
  messageBlock: Same<z.infer<typeof messageBlock>, Block>;
}

// The compiler is the judge of these two: a difference is an error here.
it("errors, answers and blocks of messages have the types that their schemas describe", () => {
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
