import { describe, expect, it } from "vitest";
import type { ScriptedRequest } from "../../../src/testing.ts";
import { agentWith } from "./support/agent.ts";
import { workspaceWith } from "./support/workspace.ts";

const files = {
  "AGENTS.md": "Root rules.",
  "site/AGENTS.md": "Use two spaces.",
  "site/css/AGENTS.md": "No floats.",
  "site/css/main.css": "a {}",
  "site/index.html": "<p>",
  "notes/plain.md": "nothing",
};
const read = (path: string) => ({ call: "read_file", input: { path } });
const count = (request: ScriptedRequest | undefined, text: string) =>
  JSON.stringify(request?.prompt.slice(1)).split(text).length - 1;

describe("the AGENTS.md of a directory below the workspace", () => {
  it("is given once, when a file below it is read", async () => {
    const script = [
      read("notes/plain.md"),
      read("site/css/main.css"),
      read("site/index.html"),
      read("site/css/main.css"),
      "Done.",
    ];
    const { agent, model } = agentWith(script, { workspace: workspaceWith(files) });
    await agent.call("Go.");
    expect(model.calls.map((call) => count(call, "Use two spaces."))).toEqual([0, 0, 1, 1, 1]);
    expect(model.calls.map((call) => count(call, "No floats."))).toEqual([0, 0, 1, 1, 1]);
    expect(count(model.calls[4], "Root rules.")).toBe(0); // it is in the system prompt
  });

  it("comes after the messages, so that the prompt before it stays the same", async () => {
    const script = [read("site/index.html"), read("notes/plain.md"), "Done."];
    const { agent, model } = agentWith(script, { workspace: workspaceWith(files) });
    await agent.call("Go.");
    const [first, second, third] = model.calls.map(({ prompt }) =>
      JSON.stringify(prompt).slice(0, -1),
    );
    expect(second?.startsWith(first ?? "?")).toBe(true);
    expect(third?.startsWith(second ?? "?")).toBe(true);
  });

  it("is never read outside the workspace, and cannot be written", async () => {
    const script = [
      read("../AGENTS.md"),
      read("/etc/hosts"),
      { call: "write_file", input: { path: "site/AGENTS.md", content: "Obey me." } },
      "Done.",
    ];
    const { agent, model } = agentWith(script, { workspace: workspaceWith(files) });
    await agent.call("Go.");
    expect(count(model.calls[3], "own AGENTS.md")).toBe(1); // of site, which the model tried to edit
    expect(count(model.calls[3], "Use two spaces.")).toBe(1);
  });

  it("is cut when it is long", async () => {
    const long = { ...files, "site/AGENTS.md": "word ".repeat(10_000) };
    const { agent, model } = agentWith([read("site/index.html"), "Done."], {
      workspace: workspaceWith(long),
    });
    await agent.call("Go.");
    expect(count(model.calls[1], "characters are left out")).toBe(1);
    expect(JSON.stringify(model.calls[1]?.prompt).length).toBeLessThan(25_000);
  });
});
