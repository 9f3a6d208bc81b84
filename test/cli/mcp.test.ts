import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterEach, expect, it } from "vitest";

const program = resolve("src/cli/main.ts");
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A project whose config, tools and agents print to the standard output. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-mcp-"));
  folders.push(folder);
  const at = (path: string) => JSON.stringify(pathToFileURL(resolve(path)).href);
  writeFileSync(
    join(folder, "rivulet.config.ts"),
    `import { memoryStore, ReActAgent, tool } from ${at("src/index.ts")};
     import { scriptedModel } from ${at("src/testing.ts")};
     import { z } from ${at("node_modules/zod/index.js")};
     console.log("a line of the config");
     const remove = tool({
       name: "remove", description: "Removes.", needsApproval: true,
       input: z.object({ path: z.string() }),
       execute: () => { console.log("a line of a tool"); process.stdout.write("{}\\n"); return "removed"; },
     });
     const store = memoryStore();
     const model = scriptedModel([[{ call: "remove", input: { path: "a" } }], "Gone."], { by: "prompt" });
     const slow = new ReActAgent({ name: "slow", store, model: scriptedModel([[{ hang: true }]]) });
     export default { agents: [new ReActAgent({ name: "lead", tools: [remove], model, store }), slow], store };`,
  );
  return folder;
}

it.each([{ mode: { pin: "2026-07-28" } }, { mode: "legacy" }] as const)(
  "rivulet mcp serves a client that starts it, and ends with it: %j",
  async (versionNegotiation) => {
    const capabilities = { elicitation: {} };
    const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation });
    client.setRequestHandler("elicitation/create", async () => ({
      action: "accept",
      content: { decision: "approve" },
    }));
    const errors: Error[] = [];
    client.onerror = (error) => void errors.push(error); // a line that is no message is an error
    const transport = new StdioClientTransport({
      ...{ command: process.execPath, args: [program, "mcp"], cwd: project(), stderr: "pipe" },
    });
    await client.connect(transport);
    const result = await client.callTool({ name: "lead", arguments: { message: "Clean up." } });
    expect(result.content).toEqual([{ type: "text", text: "Gone." }]);
    expect(errors).toEqual([]);
    const { pid } = transport;
    await client.close();
    expect(() => process.kill(Number(pid), 0)).toThrow(/ESRCH/);
  },
);

it("writes only messages to the standard output, and exits when its input ends during a call", async () => {
  const child = spawn(process.execPath, [program, "mcp"], { cwd: project() });
  const printed = text(child.stdout);
  const notes = text(child.stderr);
  const send = (message: object) => child.stdin.write(`${JSON.stringify(message)}\n`);
  const clientInfo = { name: "raw", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  send({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  await once(child.stdout, "data");
  child.stdin.write("this is no message\n");
  const call = { name: "slow", arguments: { message: "Go." } };
  send({ jsonrpc: "2.0", id: 2, method: "tools/call", params: call });
  send({ jsonrpc: "2.0", id: 3, method: "tools/list" });
  await once(child.stdout, "data");
  child.stdin.end();
  const [code] = await once(child, "close");
  expect(code, await notes).toBe(0);
  const lines = (await printed).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).jsonrpc)).toEqual(lines.map(() => "2.0"));
  expect(await notes).toContain("a line of the config");
});

it("explains itself", async () => {
  const child = spawn(process.execPath, [program, "mcp", "--help"]);
  expect(await text(child.stdout)).toMatch(/rivulet mcp \[config\][\s\S]*MCP/);
});
