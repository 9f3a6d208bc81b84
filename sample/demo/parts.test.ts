import { expect, it } from "vitest";
import { partsOf } from "./parts.ts";

it.each([
  ["Why do wetlands matter?", false],
  ["How does groundwater get into wells?", false],
  ["What about beavers?", false],
  ["Why are they shrinking?", true],
])("%s refers to the question before: %s", (question, refers) => {
  const parts = partsOf(question, "How do river deltas form?");
  for (const part of parts) expect(part.includes("This is about river and deltas")).toBe(refers);
});
