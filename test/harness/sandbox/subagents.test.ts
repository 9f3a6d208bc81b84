import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { SubagentDeclaration } from "../../../src/harness/subagents/declaration.ts";
import { HarnessAgent, memoryStore, storeFilesystem } from "../../../src/index.ts";
import { type ScriptedRequest, scriptedModel } from "../../../src/testing.ts";
import { toolNames, toolTexts } from "../agent/support/agent.ts";
import { hasBubblewrap, workspaceDirectory } from "./support/sandbox.ts";

const jail = hasBubblewrap ? "bubblewrap" : "just-bash";
const command = { call: "execute", input: { command: "pwd; echo child > made.txt; ls" } };

/** Spawns a subagent that tries to run a command, and returns its requests. */
async function spawn(
  declaration: SubagentDeclaration | undefined,
  parent: { readonly sandbox: boolean } = { sandbox: false },
  file?: string,
) {
  const workspace = await workspaceDirectory();
  if (file !== undefined) {
    await mkdir(join(workspace, "subagents"));
    await writeFile(join(workspace, "subagents/worker.md"), file);
  }
  await writeFile(join(workspace, "of-the-lead.txt"), "x");
  const requests: ScriptedRequest[] = [];
  const model = scriptedModel((request) => {
    const isChild = JSON.stringify(request.prompt).includes("Subagent Context");
    if (!isChild)
      return request.prompt.some(({ role }) => role === "tool")
        ? "done"
        : [{ call: "agent_spawn", input: { agent_id: "worker", task: "work" } }];
    requests.push(request);
    const canExecute = toolNames(request).includes("execute");
    return canExecute && requests.length === 1 ? [command] : "worked";
  });
  const lead = new HarnessAgent({
    name: "lead",
    model,
    store: memoryStore(),
    workspace,
    filesystem: { sandbox: parent.sandbox && { jail } },
    subagents: declaration ? [declaration] : [],
    onWarning: () => {},
  });
  await lead.call("go", { sessionId: "s" });
  return { tools: toolNames(requests[0]), results: toolTexts(requests.at(-1)) };
}

const worker = { name: "worker", description: "Works." } as const;

describe("the sandbox of a subagent", () => {
  it("is that of its caller by default, on its own files", async () => {
    const { results } = await spawn(worker, { sandbox: true });
    expect(results[0]).toContain("/workspace\n");
    expect(results[0]).toContain("made.txt");
    expect(results[0]).not.toContain("of-the-lead.txt");
  });

  it("works on the files of its caller if they are shared", async () => {
    const { results } = await spawn({ ...worker, workspaceMode: "shared" }, { sandbox: true });
    expect(results[0]).toContain("of-the-lead.txt");
  });

  it("is there although its caller has none", async () => {
    const { results, tools } = await spawn({ ...worker, filesystem: { sandbox: { jail } } });
    expect(results[0]).toContain("made.txt");
    expect(tools).toContain("task_output");
  });

  it("is missing if the declaration says so, or does not list the tool", async () => {
    const none = await spawn({ ...worker, filesystem: { sandbox: false } }, { sandbox: true });
    expect(none.tools).toContain("read_file");
    expect(none.tools).not.toContain("execute");
    const unlisted = await spawn({ ...worker, tools: ["read_file"] }, { sandbox: true });
    expect(unlisted.tools).toEqual(["read_file"]);
  });

  it("can be asked for in a file", async () => {
    const file = "---\ndescription: Works.\nfilesystem:\n  sandbox: true\n---\nWork.";
    const { results } = await spawn(undefined, { sandbox: false }, file);
    expect(results[0]).toContain("made.txt");
  });

  it("skips a file that chooses the jail", async () => {
    const file = "---\ndescription: Works.\nfilesystem:\n  sandbox: { jail: unsafe }\n---\nWork.";
    const { tools } = await spawn(undefined, { sandbox: true }, file);
    expect(tools).toEqual([]);
  });

  it("throws for files that no command can reach, and for the name of background commands", () => {
    const store = memoryStore();
    const settings = { name: "lead", model: scriptedModel(["x"]), store };
    const reserved = { name: "execute", description: "Runs." };
    expect(() => new HarnessAgent({ ...settings, subagents: [reserved] })).toThrow(/execute/);
    const wrong = { ...worker, filesystem: { sandbox: { jails: "x" } } };
    expect(() => new HarnessAgent({ ...settings, subagents: [wrong as never] })).toThrow(/jails/);
    expect(storeFilesystem(store).shell).toBeUndefined();
  });
});
