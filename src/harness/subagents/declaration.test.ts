import { describe, expect, it } from "vitest";
import { tool } from "../../agent/tool/tool.ts";
import type { Agent, StandardSchema } from "../../contract/agent.ts";
import { checkDeclarations, isLocal, type SubagentDeclaration } from "./declaration.ts";

const base = { name: "reviewer", description: "Reviews code." };
const agent = { name: "ready", run: () => {} } as unknown as Agent;
const create = () => agent;
const url = "https://agents.example/v1";
const output: StandardSchema = {
  "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) },
};

/** Returns the message of the error; undefined when the declarations are valid. */
function problemOf(...declarations: readonly unknown[]): string | undefined {
  try {
    checkDeclarations(declarations as readonly SubagentDeclaration[]);
    return undefined;
  } catch (error) {
    expect(error).toMatchObject({ code: "invalid_settings", hint: expect.stringMatching(/./) });
    return (error as Error).message;
  }
}

describe("checkDeclarations", () => {
  it("accepts every kind", () => {
    const declarations: readonly SubagentDeclaration[] = [
      base,
      {
        name: "a",
        description: "All that a local one can have.",
        displayName: "A",
        timeoutMs: 0,
        output,
        permissions: { deny: ["write_*"] },
        budget: { tokens: 1 },
        model: ["openai:gpt-5-mini", "anthropic:claude"],
        maxIters: 1,
        tools: ["read_*", tool({ name: "look", description: "Looks.", execute: () => "" })],
        skills: ["x"],
        workspaceMode: "shared",
        subagents: [base],
        systemPrompt: "Do it.",
      },
      { name: "b", description: "B", workspace: "defs/b", timeoutMs: 600_000 },
      { name: "c", description: "C", url, headers: { a: "b" }, allowPrivateNetwork: true },
      { name: "d", description: "D", url: "http://localhost:1", headers: async () => ({}) },
      { name: "e", description: "E", agent },
      { name: "f", description: "F", create },
      { name: "general-purpose", description: "Replaces the one that is always there." },
    ];
    expect(problemOf(...declarations)).toBeUndefined();
    expect(declarations.filter(isLocal).map(({ name }) => name)).toEqual([
      "reviewer",
      "a",
      "b",
      "general-purpose",
    ]);
  });

  it("accepts a description of 2,000 characters", () => {
    expect(problemOf({ ...base, description: "x".repeat(2_000) })).toBeUndefined();
  });

  it("treats undefined as absent", () => {
    expect(problemOf({ ...base, url, model: undefined, systemPrompt: undefined })).toBeUndefined();
  });

  it.each(["", "-a", "_a", "a b", "a/b", "a.b", "ä", "a".repeat(64), "con", "COM1", 7, undefined])(
    "refuses the name %j",
    (name) => {
      expect(problemOf({ ...base, name })).toContain("cannot be the name of a subagent");
    },
  );

  it.each(["a", "0", "A-b_C", "a".repeat(63)])("accepts the name %j", (name) => {
    expect(problemOf({ ...base, name })).toBeUndefined();
  });

  it("refuses two names that differ only in case", () => {
    expect(problemOf(base, { ...base, name: "Reviewer" })).toBe(
      'Two subagents have the name "Reviewer".',
    );
  });

  it("refuses more than 256 declarations", () => {
    const many = Array.from({ length: 257 }, (_, index) => ({ ...base, name: `a${index}` }));
    expect(problemOf(...many.slice(1))).toBeUndefined();
    expect(problemOf(...many)).toBe("There are 257 subagents.");
  });

  it.each([
    [{ url, model: "openai:x" }, "has both url and model"],
    [{ url, tools: [] }, "has both url and tools"],
    [{ url, systemPrompt: "x" }, "has both url and systemPrompt"],
    [{ url, workspace: "x" }, "has both url and workspace"],
    [{ url, agent }, "has both url and agent"],
    [{ agent, create }, "has both agent and create"],
    [{ agent, maxIters: 3 }, "has both agent and maxIters"],
    [{ create, headers: {} }, "has both create and headers"],
    [{ headers: {} }, "has headers without url"],
    [{ allowPrivateNetwork: true }, "has allowPrivateNetwork without url"],
    [{ systemPrompt: "x", workspace: "y" }, "has both systemPrompt and workspace"],
    [{ leaf: true, subagents: [] }, "is a leaf and has subagents"],
    [{ instructions: "x" }, "has no option `instructions`"],
    [{ timeoutSeconds: 5 }, "has no option `timeoutSeconds`"],
    [{ description: " " }, "has no description"],
    [{ description: undefined }, "has no description"],
    [{ description: "x".repeat(2_001) }, "has a description of 2001 characters"],
    [{ maxIters: 0 }, "`maxIters` must be an integer of at least 1, got 0"],
    [{ maxIters: 1.5 }, "`maxIters` must be an integer of at least 1, got 1.5"],
    [{ maxIters: "8" }, '`maxIters` must be an integer of at least 1, got "8"'],
    [{ timeoutMs: -1 }, "`timeoutMs` must be a number from 0"],
    [{ timeoutMs: 600_001 }, "`timeoutMs` must be a number from 0"],
    [{ timeoutMs: Number.NaN }, "`timeoutMs` must be a number from 0"],
    [{ workspaceMode: "Shared" }, '`workspaceMode` must be "isolated" or "shared", got "Shared"'],
    [{ workspace: "" }, '`workspace` must be the path of a directory, got ""'],
    [{ systemPrompt: 3 }, "`systemPrompt` must be a string, got 3"],
    [{ tools: "read_file" }, "`tools` must be an array of tools and"],
    [{ tools: [""] }, "`tools` must be an array of tools and"],
    [{ output: "x" }, '`output` must be a Standard Schema, such as a zod schema, got "x"'],
    [{ permissions: { deny: "rm" } }, "has invalid permissions: permissions.deny must be an array"],
    [{ agent: {} }, "`agent` must be an Agent, such as a ReActAgent, got an object"],
    [{ create: {} }, "`create` must be a function, got an object"],
    [{ model: "nobody:x" }, 'has a model that cannot be used: There is no provider "nobody"'],
    [{ model: "gpt" }, "has a model that cannot be used"],
    [{ url: "agents.example" }, "`url` must be a URL that starts with https:// or http://"],
    [{ url: "ftp://agents.example" }, "`url` must be a URL that starts with"],
    [{ url: 3 }, "`url` must be a URL that starts with"],
    [{ url: "https://user:secret@agents.example" }, "has a url with a password"],
  ])("refuses %j", (more, problem) => {
    expect(problemOf({ ...base, ...more })).toMatch(/^Subagent reviewer:? /);
    expect(problemOf({ ...base, ...more })).toContain(problem);
  });

  it("checks nested declarations, and values that are not declarations", () => {
    const inner = { name: "inner", description: "I", maxIters: 0 };
    expect(problemOf({ ...base, subagents: [inner] })).toContain(
      "Subagent inner: `maxIters` must be",
    );
    expect(problemOf("reviewer")).toBe('Subagent takes an object, got "reviewer".');
  });
});

it("does not compile with keys that exclude each other", () => {
  const declarations: readonly SubagentDeclaration[] = [
    // @ts-expect-error
    { ...base, url, model: "openai:x" },
    // @ts-expect-error
    { ...base, url, tools: [] },
    // @ts-expect-error
    { ...base, url, systemPrompt: "x" },
    // @ts-expect-error
    { ...base, headers: {} },
    // @ts-expect-error
    { ...base, systemPrompt: "x", workspace: "y" },
    // @ts-expect-error
    { ...base, agent, create },
    // @ts-expect-error
    { ...base, agent, url },
    // @ts-expect-error
    { ...base, create, maxIters: 3 },
    // @ts-expect-error
    { ...base, leaf: true, subagents: [] },
    // @ts-expect-error
    { name: "x" },
  ];
  for (const declaration of declarations) expect(problemOf(declaration)).toBeDefined();
});
