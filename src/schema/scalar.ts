import { z } from "zod";
import { define, definitions } from "./definitions.ts";

/** Names a task, an item, a call, an approval, a session, a block or a kind of agent. */
export const id = z
  .string()
  .min(1)
  .max(128)
  .refine((value) => value !== "__proto__", "an id becomes a key, and this key is taken");
definitions.add(id, {
  id: "Id",
  description: "An opaque name, compared as it is.",
  not: { enum: ["__proto__"] },
});

/** A position or an amount. */
export const count = define("Count", "A whole number from 0.", z.int().min(0));

/** A position that may stand before the first one. */
export const cursor = define(
  "Cursor",
  "The position of the last event that was considered; -1 before the first.",
  z.int().min(-1),
);

/** A point in time. */
export const time = define("Time", "Milliseconds since 1970-01-01T00:00:00Z.", z.int().min(0));

/** A position in a text. */
export const textIndex = define(
  "TextIndex",
  "An offset in UTF-16 code units, as JavaScript, Java and C# count strings.",
  z.int().min(0),
);

/** Any JSON object. */
export const jsonObject = z.record(z.string(), z.unknown());
