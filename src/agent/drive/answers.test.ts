import { describe, expect, it } from "vitest";
import { z } from "zod";
import { jsonSchema } from "../tool/schema.ts";
import { checkOutput } from "./answers.ts";

const outputSchema = {
  type: "object",
  properties: { a: { type: "string" }, b: { type: "number" } },
  required: ["a", "b"],
};
const record = { taskId: "task_1", outputSchema };

describe("the output schema of a task that goes on", () => {
  it("may be left out, and may be given again, with its keys in any order", () => {
    const { required, properties, type } = outputSchema;
    const turned = { required, properties: { b: properties.b, a: properties.a }, type };
    for (const output of [undefined, jsonSchema(outputSchema), jsonSchema(turned)]) {
      expect(() => checkOutput(output, record)).not.toThrow();
    }
    expect(() => checkOutput(undefined, { taskId: "task_1" })).not.toThrow();
  });

  it("cannot be another, and cannot come later", () => {
    const other = z.object({ a: z.string(), b: z.int() });
    expect(() => checkOutput(other, record)).toThrow(
      expect.objectContaining({
        code: "other_output",
        message: "Task task_1 was started with another output schema.",
      }),
    );
    expect(() => checkOutput(jsonSchema(outputSchema), { taskId: "task_1" })).toThrow(
      expect.objectContaining({ message: "Task task_1 was started with no structured output." }),
    );
  });
});
