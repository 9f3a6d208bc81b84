import { describe, expect, it } from "vitest";
import { tool } from "../../../src/index.ts";
import { agentWith, toolTexts } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

const returning = (value: unknown) =>
  tool({ name: "dump", description: "Returns a lot.", execute: () => value });
const pathIn = (text = "") => /saved as (\S+):/.exec(text)?.[1] ?? "none";

/** Lets a model read the whole file page by page, as the notes of read_file tell it. */
async function readBack(value: unknown, userId?: string) {
  const { agent, model } = agentWith(
    (request) => {
      const answers = toolTexts(request);
      if (answers.length === 0) return { call: "dump" };
      const [, next] = /continue with offset (\d+)\]$/.exec(answers.at(-1) ?? "") ?? [];
      const offset = answers.length === 1 ? 1 : Number(next);
      if (Number.isNaN(offset)) return "read";
      return { call: "read_file", input: { path: pathIn(answers[0]), offset } };
    },
    { workspace: workspaceWith(), tools: [returning(value)], maxIters: 40 },
  );
  const { text } = await agent.call("Go.", userId === undefined ? {} : { userId });
  expect(text).toBe("read");
  const [preview = "", ...pages] = toolTexts(model.calls.at(-1));
  const lines = pages.flatMap((page) =>
    page.split("\n").flatMap((line) => /^ *\d+\t(.*)$/.exec(line)?.[1] ?? []),
  );
  return { lines, preview };
}

describe("a tool result that is too long", () => {
  it("is saved to a file that the model can read completely", async () => {
    const all = Array.from({ length: 9_000 }, (_, n) => `line ${n} of the result`);
    const { lines, preview } = await readBack(all.join("\n"));
    expect(lines).toEqual(all);
    expect(preview).toContain("line 0 of");
    expect(preview).toContain("line 8999 of");
    expect(preview).toMatch(/\[\d+ of \d+ characters left out\]/);
    expect(preview.length).toBeLessThan(9_000);
  });

  it("can be read even if it is one line", async () => {
    const value = Array.from({ length: 20_000 }, (_, n) => n * n);
    const { lines } = await readBack(value, "ann");
    expect(lines.join("")).toBe(JSON.stringify(value));
  });

  it("is hidden from other users", async () => {
    const workspace = workspaceWith();
    const tools = [returning("x".repeat(90_000))];
    const script = [{ call: "dump" }, "ok", { call: "glob_files", input: { pattern: "**" } }, "ok"];
    const { agent, model } = agentWith(script, { workspace, tools });
    await agent.call("Go.", { userId: "ann" });
    await agent.call("Look.", { userId: "bob" });
    expect(toolTexts(model.calls[3]).at(-1)).toBe("(no files)");
  });

  it("has the same file when the result repeats", async () => {
    const { agent } = agentWith(() => ({ call: "dump" }), {
      workspace: workspaceWith(),
      tools: [returning("x".repeat(90_000))],
    });
    const { generateReason } = await agent.call("Go.");
    expect(generateReason).toBe("no_progress");
  });

  it("keeps its display for people", async () => {
    const shownOf = async (value: unknown) => {
      const { agent } = agentWith([{ call: "dump" }, "ok"], {
        workspace: workspaceWith(),
        tools: [returning(value)],
      });
      const shown = [];
      for await (const event of agent.stream("Go.", { types: ["tool_result"] })) {
        if (event.last) shown.push(event.text);
      }
      return shown.join();
    };
    const long = "x".repeat(90_000);
    expect(await shownOf({ content: long, display: "A long list." })).toBe("A long list.");
    expect(await shownOf(long)).toMatch(
      /^x{30000,}\n\n\[\d+ of 90000 characters left out\]\n\nx+$/,
    );
  });

  it("keeps its images", async () => {
    const image = { type: "image", source: { data: "QUJD", mimeType: "image/png" } };
    const value = [{ type: "text", text: "x".repeat(90_000) }, image];
    const { agent, model } = agentWith([{ call: "dump" }, "ok"], {
      workspace: workspaceWith(),
      tools: [returning(value)],
    });
    await agent.call("Go.");
    expect(JSON.stringify(model.calls[1]?.prompt.at(-1))).toContain("QUJD");
  });

  it("is saved only from the configured length on", async () => {
    const { agent, model } = agentWith([{ call: "dump" }, "ok"], {
      workspace: workspaceWith(),
      tools: [returning("x".repeat(500))],
      eviction: { maxChars: 499 },
    });
    await agent.call("Go.", { sessionId: "quota" });
    expect(toolTexts(model.calls[1])[0]).toContain("It was saved as tool-results/quota/dump-");
    const { agent: other, model: seen } = agentWith([{ call: "dump" }, "ok"], {
      workspace: workspaceWith(),
      tools: [returning("x".repeat(80_000))],
    });
    await other.call("Go.");
    expect(toolTexts(seen.calls[1])[0]).toBe("x".repeat(80_000));
  });

  it.each([
    ["there are no files", { filesystem: false }],
    ["eviction is off", { eviction: false, workspace: "unused" }],
  ] as const)("is cut when %s", async (_, options) => {
    const { agent, model } = agentWith([{ call: "dump" }, "ok"], {
      ...options,
      ...("workspace" in options && { workspace: workspaceWith() }),
      tools: [returning(`head${"x".repeat(90_000)}tail`)],
    });
    await agent.call("Go.");
    const [text = ""] = toolTexts(model.calls[1]);
    expect(text).toMatch(/^headx+\n\n\[\d+ of 90008 characters left out\]\n\nx+tail$/);
    expect(text.length).toBeLessThanOrEqual(80_000);
  });

  it("is cut with a notice when it cannot be saved", async () => {
    const workspace = workspaceWith({ "tool-results": "a file where the directory should be" });
    const { agent, model } = agentWith([{ call: "dump" }, "ok"], {
      workspace,
      tools: [returning("x".repeat(90_000))],
    });
    await agent.call("Go.");
    expect(toolTexts(model.calls[1])[0]).toContain("It could not be saved (");
  });
});
