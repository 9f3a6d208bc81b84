import { expect, it } from "vitest";
import { modelLines, readOptions, usage } from "./options.ts";

it("asks the default question of the demo model when nothing is said", () => {
  expect(readOptions([], {})).toMatchObject({
    question: expect.stringContaining("deltas"),
    model: "demo:analyst",
    modelFrom: "default",
    workspace: expect.stringMatching(/sample.workspace$/),
    yes: false,
    json: false,
  });
});

it("takes words for the question, and the model from the option before the environment", () => {
  const environment = { RIVULET_MODEL: "openai:a" };
  expect(readOptions(["Why", "so?"], environment)).toMatchObject({
    question: "Why so?",
    model: "openai:a",
    modelFrom: "RIVULET_MODEL",
  });
  expect(readOptions(["--model", "openai:b", "--session", "s"], environment)).toMatchObject({
    model: "openai:b",
    modelFrom: "--model",
    sessionId: "s",
  });
});

it("refuses what it does not know, in a sentence", () => {
  expect(() => readOptions(["--nope"], {})).toThrow(
    expect.objectContaining({
      code: "invalid_arguments",
      message: "Unknown option '--nope'.",
      hint: expect.stringContaining("--help"),
    }),
  );
});

it("says how to use a key that is there, and that it is not used", () => {
  const demo = { model: "demo:analyst", modelFrom: "default" } as const;
  expect(modelLines(demo, {})).toHaveLength(1);
  const [, hint] = modelLines(demo, { ANTHROPIC_API_KEY: "sk", OPENAI_API_KEY: "" });
  expect(hint).toContain("ANTHROPIC_API_KEY is set and stays unused");
  expect(hint).toContain("--model anthropic:");
  expect(hint).not.toContain("sk ");
  expect(modelLines({ model: "openai:a", modelFrom: "--model" }, { OPENAI_API_KEY: "sk" })).toEqual(
    ["model     openai:a (from --model)"],
  );
});

it("tells of every option", () => {
  for (const name of ["model", "yes", "session", "workspace", "json", "replay"])
    expect(usage).toContain(`--${name}`);
});
