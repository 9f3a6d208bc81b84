import { expect, it } from "vitest";
import { modelLines, readOptions, usage } from "./options.ts";

it("defaults to the sample question and the demo model", () => {
  expect(readOptions([], {})).toMatchObject({
    question: expect.stringContaining("deltas"),
    model: "demo:analyst",
    modelFrom: "default",
    workspace: expect.stringMatching(/sample.workspace$/),
    yes: false,
    json: false,
  });
});

it("joins words to the question, and prefers --model to RIVULET_MODEL", () => {
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

it("rejects an unknown option", () => {
  expect(() => readOptions(["--nope"], {})).toThrow(
    expect.objectContaining({
      code: "invalid_arguments",
      message: "Unknown option '--nope'.",
      hint: expect.stringContaining("--help"),
    }),
  );
});

it("explains how to use an API key that is set but not used", () => {
  const demo = { model: "demo:analyst", modelFrom: "default" } as const;
  expect(modelLines(demo, {})).toHaveLength(1);
  const [, hint] = modelLines(demo, { ANTHROPIC_API_KEY: "sk", OPENAI_API_KEY: "" });
  expect(hint).toContain("ANTHROPIC_API_KEY is set but not used");
  expect(hint).toContain("--model anthropic:");
  expect(hint).not.toContain("sk ");
  expect(modelLines({ model: "openai:a", modelFrom: "--model" }, { OPENAI_API_KEY: "sk" })).toEqual(
    ["model     openai:a (from --model)"],
  );
});

it("lists every option in the usage text", () => {
  for (const name of ["model", "yes", "session", "workspace", "json", "replay"])
    expect(usage).toContain(`--${name}`);
});
