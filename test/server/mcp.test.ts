import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  type Agent,
  agentTool,
  connectMcp,
  HarnessAgent,
  memoryStore,
  ReActAgent,
  tool,
  toolAgent,
} from "../../src/index.ts";
import { scriptedModel } from "../../src/testing.ts";
import { createFolder, removeFolder } from "../store/support/folder.ts";
import { nested, scripted, startServer, tokens } from "./support/server.ts";

const versions = {
  "2026-07-28": { mode: { pin: "2026-07-28" } },
  "2025-11-25": { mode: "legacy" },
} as const;
type Version = keyof typeof versions;
type Answer = { action: "accept" | "decline" | "cancel"; content?: Record<string, string> };

async function open(...agents: readonly Agent[]) {
  const server = await startServer({ agents, adapters: ["mcp"] });
  const mcp = (token: string) => rawClient(`${server.url}/mcp`, token);
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
  return { server, client, mcp };
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

  it("leaves a task waiting whose question is closed, and denies one that is declined", async () => {
    const { client } = await open(deep());
    const closing = await client(version, tokens.ann, () => ({ action: "cancel" }));
    const waiting = await closing.callTool({ name: "lead", arguments: { message: "Clean up." } });
    const standing = waiting.structuredContent as { task_id: string; waiting: { tool: string }[] };
    expect(standing).toMatchObject({ status: "suspended", waiting: [{ tool: "remove" }] });
    await closing.close();
    const declining = await client(version, tokens.ann, () => ({ action: "decline" }));
    const denied = await declining.callTool({ name: "lead", arguments: { message: "Clean up." } });
    expect(textIn(denied)).toBe("All clean.");
    const all = await declining.callTool({
      name: "agent_get",
      arguments: { task_id: standing.task_id },
    });
    expect(all.structuredContent).toMatchObject({ status: "suspended" });
    await declining.close();
  });

  it("gives a client without elicitation the questions, and takes answers with agent_update", async () => {
    const { client } = await open(deep());
    const ann = await client(version);
    const waiting = await ann.callTool({ name: "lead", arguments: { message: "Clean up." } });
    expect(textIn(waiting)).toMatch(/agent_update/);
    const { task_id, waiting: asked } = waiting.structuredContent as {
      task_id: string;
      waiting: { approval_id: string }[];
    };
    const answers = asked.map(({ approval_id }) => ({ approval_id, decision: "approve" }));
    const updated = await ann.callTool({ name: "agent_update", arguments: { task_id, answers } });
    expect(updated.structuredContent).not.toHaveProperty("waiting");
    const read = async () =>
      (await ann.callTool({ name: "agent_get", arguments: { task_id } })).structuredContent;
    await expect.poll(read, { timeout: 20_000 }).toMatchObject({
      status: "completed",
      text: "All clean.",
      subagents: [
        { path: expect.stringMatching(/helper/) },
        { path: expect.stringMatching(/worker/) },
      ],
    });
    await ann.close();
  });

  it("starts, cancels and reads a task, and reports a failure as an error of the tool", async () => {
    const { agent, store } = scripted([[{ hang: true }]]);
    const model = scriptedModel([{ error: new Error("Out of order.") }]);
    const { client } = await open(agent, new ReActAgent({ name: "broken", model, store }));
    const ann = await client(version);
    const started = await ann.callTool({
      name: "agent_start",
      arguments: { agent: "lead", message: "Go." },
    });
    const { task_id } = started.structuredContent as { task_id: string };
    await ann.callTool({ name: "agent_cancel", arguments: { task_id } });
    const read = async () =>
      (await ann.callTool({ name: "agent_get", arguments: { task_id } })).structuredContent;
    await expect.poll(read, { timeout: 20_000 }).toMatchObject({ status: "cancelled" });
    const failed = await ann.callTool({ name: "broken", arguments: { message: "Go." } });
    expect(failed).toMatchObject({ isError: true });
    expect(textIn(failed)).toMatch(/Out of order/);
    await ann.close();
  });
});

describe("the skills of an agent", () => {
  it("are resources, for every client", async () => {
    const store = memoryStore();
    const workspace = createFolder();
    const text = "---\nname: tidy\ndescription: Tidies up.\n---\n\nPut things away.\n";
    mkdirSync(join(workspace, "skills/tidy"), { recursive: true });
    writeFileSync(join(workspace, "skills/tidy/SKILL.md"), text);
    const model = scriptedModel(["Hi."]);
    const agent = new HarnessAgent({ name: "lead", store, workspace, model });
    const { client } = await open(agent);
    for (const version of Object.keys(versions) as Version[]) {
      const ann = await client(version);
      const { resources } = await ann.listResources();
      expect(resources).toMatchObject([
        { uri: "skill://tidy/SKILL.md", name: "tidy", description: "Tidies up." },
      ]);
      const { contents } = await ann.readResource({ uri: "skill://tidy/SKILL.md" });
      expect(contents).toMatchObject([{ mimeType: "text/markdown", text }]);
      for (const uri of ["skill://none/SKILL.md", "skill://../AGENTS.md", "skill://tidy/../x"])
        await expect(ann.readResource({ uri })).rejects.toMatchObject({ code: expect.any(Number) });
      await ann.close();
    }
    removeFolder(workspace);
  });
});

it("connectMcp reads the resources of a server, and reports one that does not exist", async () => {
  const { agent, store } = scripted(["Hi."]);
  const read = ({ page = "" }) => (page === "none" ? undefined : `The page ${page}.`);
  const resources = [
    { uri: "docs://style", name: "style", description: "How we\nwrite.", read: () => "Be brief." },
    { uri: "docs://pages/{page}", name: "page", read },
  ];
  const server = await startServer({ agents: [agent], adapters: ["mcp"], mcp: { resources } });
  await using docs = await connectMcp({
    ...{ name: "docs", url: `${server.url}/mcp` },
    headers: { authorization: `Bearer ${tokens.ann}` },
  });
  const call = async (name: string, input: object = {}) => {
    const found = docs.tools().find((one) => one.name === name);
    if (found === undefined) throw new Error(`no tool ${name}`);
    return (await toolAgent(found, { store }).call(JSON.stringify(input))).text;
  };
  expect(await call("docs_list_resources")).toBe("docs://style style: How we write.");
  expect(await call("docs_read_resource", { uri: "docs://style" })).toBe("Be brief.");
  expect(await call("docs_read_resource", { uri: "docs://pages/a" })).toBe("The page a.");
  expect(await call("docs_read_resource", { uri: "docs://pages/none" })).toMatch(/not found/i);
  expect(await call("docs_agent_get", { task_id: "task_x" })).toMatch(/There is no task/);
});

describe("a call over a connection that breaks", () => {
  it("finds its task again after a cut at every message, and starts no other", async () => {
    const store = memoryStore();
    const { mcp } = await open(nested(store));
    const ann = mcp(tokens.ann);
    const call = (n: number) => ({
      name: "lead",
      arguments: { message: "Go.", idempotency_key: `key-${n}` },
      _meta: { progressToken: n },
    });
    const { messages } = await ann.send("tools/call", call(0));
    expect(messages.length).toBeGreaterThan(3);
    for (let cut = 0; cut < messages.length; cut++) {
      await ann.send("tools/call", call(cut + 1), { cut });
      const { messages: again } = await ann.send("tools/call", call(cut + 1));
      expect(textIn(again.at(-1)?.result as object)).toBe("The lead sums up what both have found.");
    }
    const roots = (await store.tasks({})).filter(({ depth }) => depth === 0);
    expect(roots).toHaveLength(messages.length + 1);
    const other = { name: "lead", arguments: { message: "Stop.", idempotency_key: "key-1" } };
    const { messages: refused } = await ann.send("tools/call", other);
    expect(refused.at(-1)?.result).toMatchObject({ isError: true });
    expect(textIn(refused.at(-1)?.result as object)).toMatch(/another body/);
  });
});

describe("what belongs to another user", () => {
  it("does not exist: ids, states and tasks", async () => {
    const { mcp } = await open(deep());
    const [ann, bob] = [mcp(tokens.ann), mcp(tokens.bob)];
    const params = { name: "lead", arguments: { message: "Clean up." } };
    const asked = (await ann.send("tools/call", params, elicits)).messages.at(-1)?.result as {
      requestState: string;
      inputRequests: object;
    };
    expect(Object.keys(asked.inputRequests)).toEqual(["remove"]);
    const inputResponses = { remove: { action: "accept", content: { decision: "approve" } } };
    const answer = { ...params, inputResponses, requestState: asked.requestState };
    const theirs = await bob.send("tools/call", answer, elicits);
    expect(theirs.messages.at(-1)).toMatchObject({
      error: { code: -32602, message: "Invalid or expired requestState" },
    });
    const changed = asked.requestState.replace(/.$/, (last) => (last === "A" ? "B" : "A"));
    const tampered = await ann.send("tools/call", { ...answer, requestState: changed }, elicits);
    expect(tampered.messages.at(-1)).toMatchObject({ error: { code: -32602 } });
    const body = asked.requestState.split(".")[0] ?? "";
    const [, taskId] = JSON.parse(Buffer.from(body, "base64url").toString()) as [string, string];
    for (const task_id of [taskId, "task_none", "../x"])
      for (const name of ["agent_get", "agent_cancel"]) {
        const call = { name, arguments: { task_id } };
        const { messages } = await bob.send("tools/call", call);
        expect(messages.at(-1)?.result).toMatchObject({ isError: true });
        expect(textIn(messages.at(-1)?.result as object)).toMatch(/There is no task/);
      }
    for (const method of ["tasks/get", "tasks/cancel"]) {
      const { messages } = await bob.send(method, { taskId }, takesTasks);
      expect(messages.at(-1)).toMatchObject({ error: { code: -32602 } });
    }
    const mine = await ann.send("tools/call", answer, elicits);
    expect(textIn(mine.messages.at(-1)?.result as object)).toBe("All clean.");
    const repeated = await ann.send("tools/call", answer, elicits);
    expect(textIn(repeated.messages.at(-1)?.result as object)).toBe("All clean.");
  });

  it("needs the scope write for everything but reading", async () => {
    const { mcp } = await open(scripted(["Hi."]).agent);
    const reader = mcp(tokens.reader);
    expect((await reader.send("tools/list", {})).status).toBe(200);
    const params = { name: "lead", arguments: { message: "Go." } };
    const refused = await reader.send("tools/call", params);
    expect(refused.status).toBe(403);
    expect(refused.messages).toMatchObject([{ error: { data: { code: "forbidden" } } }]);
    expect((await mcp(tokens.nothing).send("tools/list", {})).status).toBe(403);
    expect((await mcp("wrong-0123456789").send("tools/list", {})).status).toBe(401);
  });
});

describe("the tasks extension", () => {
  it("gives a task to a client that takes tasks, and a result to every other", async () => {
    const { mcp } = await open(deep());
    const ann = mcp(tokens.ann);
    const params = { name: "lead", arguments: { message: "Clean up." } };
    const plain = (await ann.send("tools/call", params)).messages.at(-1)?.result;
    expect(plain).not.toHaveProperty("taskId");
    const made = (await ann.send("tools/call", params, takesTasks)).messages.at(-1)?.result as {
      taskId: string;
    };
    expect(made).toMatchObject({ resultType: "task", status: expect.any(String), ttlMs: null });
    const { taskId } = made;
    const get = async () =>
      (await ann.send("tasks/get", { taskId }, takesTasks)).messages.at(-1)?.result as {
        inputRequests: Record<string, object>;
      };
    await expect.poll(get, { timeout: 20_000 }).toMatchObject({ status: "input_required" });
    const [[id = ""] = []] = Object.entries((await get()).inputRequests);
    const inputResponses = { [id]: { action: "accept", content: { decision: "approve" } } };
    const updated = await ann.send("tasks/update", { taskId, inputResponses }, takesTasks);
    expect(updated.messages.at(-1)?.error).toBeUndefined();
    await expect.poll(get, { timeout: 20_000 }).toMatchObject({
      status: "completed",
      result: { content: [{ type: "text", text: "All clean." }] },
    });
    const closed = await ann.send("tasks/get", { taskId });
    expect(closed.messages.at(-1)).toMatchObject({ error: { code: -32021 } });
  });
});

interface Message {
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}
interface SendOptions {
  readonly capabilities?: object;
  /** Cuts the connection after this many messages. */
  readonly cut?: number;
}
const elicits: SendOptions = { capabilities: { elicitation: {} } };
const takesTasks: SendOptions = {
  capabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } },
};

/** A client of 2026-07-28 that is plain fetch. */
function rawClient(url: string, token: string) {
  let id = 0;
  async function send(
    method: string,
    params: Readonly<Record<string, unknown>>,
    { capabilities = {}, cut = Number.POSITIVE_INFINITY }: SendOptions = {},
  ): Promise<{ status: number; messages: readonly Message[] }> {
    const given = params as { name?: string; taskId?: string; _meta?: object };
    const named = given.name ?? given.taskId;
    const envelope = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": capabilities,
    };
    id += 1;
    const response = await fetch(url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        ...(named !== undefined && { "mcp-name": named }),
      },
      body: JSON.stringify({
        ...{ jsonrpc: "2.0", id, method },
        params: { ...params, _meta: { ...given._meta, ...envelope } },
      }),
    });
    const { status } = response;
    if (!(response.headers.get("content-type") ?? "").includes("event-stream"))
      return { status, messages: [JSON.parse(await response.text()) as Message] };
    const messages: Message[] = [];
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = "";
    while (messages.length < cut) {
      const { done, value } = await reader.read();
      if (done) break;
      text += new TextDecoder().decode(value, { stream: true });
      const frames = text.split("\n\n");
      text = frames.pop() ?? "";
      for (const frame of frames) {
        const [, data] = /^data: (.*)$/m.exec(frame) ?? [];
        if (data) messages.push(JSON.parse(data) as Message);
      }
    }
    await reader.cancel();
    return { status, messages };
  }
  return { send };
}

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
