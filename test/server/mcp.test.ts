import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type Agent, agentTool, memoryStore, ReActAgent, tool } from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { nested, scripted, startServer, tokens } from "./support/server.ts";

const versions = {
  "2026-07-28": { mode: { pin: "2026-07-28" } },
  "2025-11-25": { mode: "legacy" },
} as const;
type Version = keyof typeof versions;
type Answer = { action: "accept" | "decline" | "cancel"; content?: Record<string, string> };

async function open(...agents: readonly Agent[]) {
  const server = await startServer({ agents, adapters: ["mcp"] });
  async function client(
    version: Version,
    token: string = tokens.ann,
    answer?: (message: string) => Answer,
  ) {
    const made = new Client(
      { name: "test", version: "1" },
      {
        capabilities: answer ? { elicitation: {} } : {},
        versionNegotiation: versions[version],
      },
    );
    if (answer)
      made.setRequestHandler("elicitation/create", async ({ params }) => answer(params.message));
    const transport = new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), {
      requestInit: { headers: { authorization: `Bearer ${token}` } },
    });
    await made.connect(transport);
    return made;
  }
  return { server, client };
}
const textIn = (result: { content?: unknown }) =>
  (result.content as { type: string; text?: string }[]).map(({ text = "" }) => text).join("");

describe.each(Object.keys(versions) as Version[])("a client of %s", (version) => {
  it("lists the tools for tasks and one for each agent", async () => {
    const { client } = await open(scripted(["Hi."]).agent);
    const ann = await client(version);
    const { tools } = await ann.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "agent_start",
      "agent_get",
      "agent_update",
      "agent_cancel",
      "lead",
    ]);
    await ann.close();
  });

  it("calls an agent and reads its answer, with the progress of its tree", async () => {
    const { client } = await open(nested(memoryStore()));
    const ann = await client(version);
    const progress: { progress: number; message?: string }[] = [];
    const result = await ann.callTool(
      { name: "lead", arguments: { message: "Go." } },
      { onprogress: (report) => void progress.push(report) },
    );
    expect(textIn(result)).toBe("The lead sums up what both have found.");
    const messages = progress.map(({ message }) => message);
    expect(messages).toContain("helper");
    expect(messages.some((message) => /^helper.*: worker$/.test(message ?? ""))).toBe(true);
    expect(progress.map((report) => report.progress)).toEqual([...progress.keys()]);
    await ann.close();
  });

  it("answers an approval in a grandchild as an elicitation", async () => {
    const { client } = await open(deep());
    const asked: string[] = [];
    const ann = await client(version, tokens.ann, (message) => {
      asked.push(message);
      return { action: "accept", content: { decision: "approve" } };
    });
    const result = await ann.callTool({ name: "lead", arguments: { message: "Clean up." } });
    expect(asked).toEqual([expect.stringContaining('remove({"path":"a.txt"})')]);
    expect(asked[0]).toMatch(/^helper.*worker/);
    expect(textIn(result)).toBe("All clean.");
    await ann.close();
  });
});

/** An agent whose grandchild asks before it removes a file. */
function deep(): Agent {
  const store = memoryStore();
  const remove = tool({
    name: "remove",
    description: "Removes a file.",
    input: z.object({ path: z.string() }),
    needsApproval: true,
    execute: () => "removed",
  });
  const worker = new ReActAgent({
    name: "worker",
    model: scriptedModel([[{ call: "remove", input: { path: "a.txt" } }], "Removed."], {
      by: "prompt",
    }),
    tools: [remove],
    store,
  });
  const helper = new ReActAgent({
    name: "helper",
    model: scriptedModel([[{ call: "worker", input: { prompt: "x" } }], "Done."], { by: "prompt" }),
    tools: [agentTool(worker)],
    store,
  });
  return new ReActAgent({
    name: "lead",
    model: scriptedModel([[{ call: "helper", input: { prompt: "x" } }], "All clean."], {
      by: "prompt",
    }),
    tools: [agentTool(helper)],
    store,
  });
}
