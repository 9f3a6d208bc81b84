import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { agentTool } from "../agent/agent-tool.ts";
import { toolAgent } from "../agent/tool-agent.ts";
import type { Approval, Reply, Store } from "../contract/index.ts";
import { memoryStore } from "../store/index.ts";
import { connectMcp, type McpConnection, type McpServer } from "./index.ts";

const script = fileURLToPath(new URL("../../test/support/mcp-server.ts", import.meta.url));
const connections: McpConnection[] = [];
const servers: ChildProcess[] = [];

afterEach(async () => {
  await Promise.all(connections.splice(0).map((connection) => connection.close()));
  for (const server of servers.splice(0)) server.kill("SIGKILL");
});

async function connect(mode: string): Promise<McpConnection> {
  let server: McpServer = {
    name: "test",
    command: process.execPath,
    args: [script, mode, "0", "asks"],
  };
  if (mode.startsWith("http")) {
    const serving = spawn(process.execPath, [script, mode, "0", "asks"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    servers.push(serving);
    const [line] = await once(serving.stdout, "data");
    server = { name: "test", url: String(line).trim(), headers: { "x-token": "secret" } };
  }
  return open(server);
}

async function open(server: McpServer): Promise<McpConnection> {
  const connection = await connectMcp(server, { prefix: "", reconnect: { initialBackoffMs: 20 } });
  connections.push(connection);
  return connection;
}

/** A tool of the server as an agent, below as many agents as `depth`. */
function agentOf(connection: McpConnection, name: string, store: Store, depth = 0) {
  const tool = connection.tools().find((listed) => listed.name === name);
  if (tool === undefined) throw new Error(`no tool ${name}`);
  let agent = toolAgent(tool, { store });
  for (let level = 0; level < depth; level++)
    agent = toolAgent(agentTool(agent, { name: `level_${level}` }), { store });
  return agent;
}

/** The input of such an agent. */
function inputOf(input: object, depth: number): string {
  return depth === 0
    ? JSON.stringify(input)
    : JSON.stringify({ prompt: inputOf(input, depth - 1) });
}

function asked({ approvals }: Reply<unknown>): Approval {
  expect(approvals).toHaveLength(1);
  return approvals[0] as Approval;
}

const sessionId = "s";
const schema = {
  type: "object",
  properties: {
    guests: { type: "integer", title: "Guests" },
    window: { type: "boolean", default: true },
  },
  required: ["guests"],
};

describe.each(["stdio", "stdio-2026", "http", "http-2026"])("a server over %s", (mode) => {
  it("asks a person through the agents above its call, and goes on with the answer", async () => {
    const connection = await connect(mode);
    const store = memoryStore();
    const agent = agentOf(connection, "reserve", store, 2);
    const reply = await agent.call(inputOf({ place: "Chur" }, 2), { sessionId });
    expect(reply.generateReason).toBe("tool_suspended");
    const question = asked(reply);
    expect(question).toMatchObject({
      kind: "question",
      call: { name: "reserve", input: { place: "Chur" } },
      message: "test asks: How many guests in Chur?",
      responseSchema: schema,
    });
    expect(question.path?.split("/")).toHaveLength(3);
    const end = await agent.call(question.answer('{"guests":4}'), { sessionId });
    expect(end.text).toBe('Chur: {"window":true,"guests":4}');
  });

  it("takes a bare value for a form with one required field, and asks again if it does not fit", async () => {
    const agent = agentOf(await connect(mode), "look_up", memoryStore());
    const reply = await agent.call(inputOf({}, 0), { sessionId });
    const again = await agent.call(asked(reply).answer("many"), { sessionId });
    expect(asked(again).message).toMatch(/^The answer does not fit: guests .*How many guests/);
    const end = await agent.call(asked(again).answer("5"), { sessionId });
    expect(end.text).toBe('Bern: {"window":true,"guests":5}');
  });

  it("declines for a denied question", async () => {
    const agent = agentOf(await connect(mode), "reserve", memoryStore());
    const reply = await agent.call(inputOf({}, 0), { sessionId });
    const end = await agent.call(asked(reply).deny(), { sessionId });
    expect(end.text).toBe("decline");
  });

  it("cancels the question when a person approves it without an answer", async () => {
    const agent = agentOf(await connect(mode), "reserve", memoryStore());
    const reply = await agent.call(inputOf({}, 0), { sessionId });
    const end = await agent.call(asked(reply).approve(), { sessionId });
    expect(end.text).toBe("cancel");
  });

  it("shows a page to open as a link", async () => {
    const agent = agentOf(await connect(mode), "sign", memoryStore());
    const reply = await agent.call(inputOf({}, 0), { sessionId });
    const question = asked(reply);
    expect(question.message).toContain("https://sign.example/7");
    expect(question.responseSchema).toBeUndefined();
    const end = await agent.call(question.answer("done"), { sessionId });
    expect(end.text).toBe("accept");
  });
});

describe.each(["http", "http-2026"])("calls at the same time over %s", (mode) => {
  it("ask their own people", async () => {
    const connection = await connect(mode);
    const places = ["Aarau", "Basel", "Chur"];
    const ends = await Promise.all(
      places.map(async (place) => {
        const agent = agentOf(connection, "reserve", memoryStore());
        const reply = await agent.call(inputOf({ place }, 0), { sessionId });
        expect(asked(reply).message).toContain(place);
        return agent.call(asked(reply).answer(String(place.length)), { sessionId });
      }),
    );
    expect(ends.map(({ text }) => text)).toEqual(
      places.map((place) => `${place}: {"window":true,"guests":${place.length}}`),
    );
  });
});

it("continues a call of 2026-07-28 in another process", async () => {
  const store = memoryStore();
  const first = await connect("http-2026");
  const reply = await agentOf(first, "reserve", store).call(inputOf({}, 0), { sessionId });
  await first.close();
  const later = agentOf(await connect("http-2026"), "reserve", store);
  const end = await later.call(asked(reply).answer("2"), { sessionId });
  expect(end.text).toBe('Bern: {"window":true,"guests":2}');
});

it("fails a call of 2025-11-25 whose connection has ended, since its effect is unknown", async () => {
  const store = memoryStore();
  const first = await connect("http");
  const reply = await agentOf(first, "reserve", store).call(inputOf({}, 0), { sessionId });
  await first.close();
  const second = await connect("http");
  const end = await agentOf(second, "reserve", store).call(asked(reply).answer("2"), { sessionId });
  expect(end.text).toContain("ended with the connection to the MCP server test");
  const counter = agentOf(second, "reservations", memoryStore());
  expect((await counter.call("{}", { sessionId })).text).toBe("0");
});

it("makes such a call again if the tool only reads, and gives the server the answer", async () => {
  const store = memoryStore();
  const first = await connect("http");
  const reply = await agentOf(first, "look_up", store).call(inputOf({}, 0), { sessionId });
  await first.close();
  const later = agentOf(await connect("http"), "look_up", store);
  const end = await later.call(asked(reply).answer("2"), { sessionId });
  expect(end.text).toBe('Bern: {"window":true,"guests":2}');
});
