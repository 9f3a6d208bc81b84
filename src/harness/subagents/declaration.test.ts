import { describe, expect, it } from "vitest";
import { tool } from "../../agent/tool/tool.ts";
import type { Agent, StandardSchema } from "../../protocol/agent.ts";
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
        timeoutSeconds: 0,
        output,
        permissions: { deny: ["write_*"] },
        budget: { tokens: 1 },
        model: ["openai:gpt-5-mini", "anthropic:claude"],
        maxIters: 1,
        tools: ["read_*", tool({ name: "look", description: "Looks.", execute: () => "" })],
        skills: ["x"],
        workspaceMode: "shared",
        leaf: false,
        subagents: [base],
        instructions: "Do it.",
      },
      { name: "b", description: "B", workspace: "defs/b", timeoutSeconds: 600 },
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

  it("treats undefined as absent", () => {
    expect(problemOf({ ...base, url, model: undefined, instructions: undefined })).toBeUndefined();
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
    [{ url, instructions: "x" }, "has both url and instructions"],
    [{ url, workspace: "x" }, "has both url and workspace"],
    [{ url, agent }, "has both url and agent"],
    [{ agent, create }, "has both agent and create"],
    [{ agent, maxIters: 3 }, "has both agent and maxIters"],
    [{ create, headers: {} }, "has both create and headers"],
    [{ headers: {} }, "has headers without url"],
    [{ allowPrivateNetwork: true }, "has allowPrivateNetwork without url"],
    [{ instructions: "x", workspace: "y" }, "has both instructions and workspace"],
    [{ subagents: [] }, "is a leaf and has subagents"],
    [{ leaf: true, subagents: [] }, "is a leaf and has subagents"],
    [{ systemPrompt: "x" }, 'has an unknown setting "systemPrompt"'],
    [{ description: " " }, "has no description"],
    [{ description: undefined }, "has no description"],
    [{ maxIters: 0 }, "has maxIters 0"],
    [{ maxIters: 1.5 }, "has maxIters 1.5"],
    [{ maxIters: "8" }, 'has maxIters "8"'],
    [{ timeoutSeconds: -1 }, "has timeoutSeconds -1"],
    [{ timeoutSeconds: 601 }, "has timeoutSeconds 601"],
    [{ timeoutSeconds: Number.NaN }, "has timeoutSeconds NaN"],
    [{ workspaceMode: "Shared" }, 'has workspaceMode "Shared"'],
    [{ workspace: "" }, 'has workspace ""'],
    [{ instructions: 3 }, "has instructions 3"],
    [{ tools: "read_file" }, 'has tools "read_file"'],
    [{ tools: [""] }, "has tools [ '' ]"],
    [{ output: "x" }, 'has output "x"'],
    [{ permissions: { deny: "rm" } }, "has invalid permissions: permissions.deny must be an array"],
    [{ agent: {} }, "has agent {}"],
    [{ create: {} }, "has create {}"],
    [{ model: "nobody:x" }, 'has a model that cannot be used: There is no provider "nobody"'],
    [{ model: "gpt" }, "has a model that cannot be used"],
    [{ url: "agents.example" }, 'has url "agents.example"'],
    [{ url: "ftp://agents.example" }, 'has url "ftp://agents.example"'],
    [{ url: 3 }, "has url 3"],
    [{ url: "https://user:secret@agents.example" }, "has a url with a password"],
  ])("refuses %j", (more, problem) => {
    expect(problemOf({ ...base, ...more })).toContain(`The subagent "reviewer" ${problem}`);
  });

  it("checks nested declarations, and values that are not declarations", () => {
    const inner = { name: "inner", description: "I", maxIters: 0 };
    expect(problemOf({ ...base, leaf: false, subagents: [inner] })).toContain(
      'The subagent "inner" has maxIters 0',
    );
    expect(problemOf("reviewer")).toBe('A subagent must be an object, got "reviewer".');
    expect(() => checkDeclarations({} as never)).toThrow("subagents must be an array, got {}.");
  });
});

it("does not compile with keys that exclude each other", () => {
  const declarations: readonly SubagentDeclaration[] = [
    // @ts-expect-error
    { ...base, url, model: "openai:x" },
    // @ts-expect-error
    { ...base, url, tools: [] },
    // @ts-expect-error
    { ...base, url, instructions: "x" },
    // @ts-expect-error
    { ...base, headers: {} },
    // @ts-expect-error
    { ...base, instructions: "x", workspace: "y" },
    // @ts-expect-error
    { ...base, agent, create },
    // @ts-expect-error
    { ...base, agent, url },
    // @ts-expect-error
    { ...base, create, maxIters: 3 },
    // @ts-expect-error
    { name: "x" },
  ];
  for (const declaration of declarations) expect(problemOf(declaration)).toBeDefined();
});
