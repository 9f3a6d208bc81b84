import { type ChildProcess, spawn } from "node:child_process";
import { getEventListeners, once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { toolExecution } from "../agent/base/execution.ts";
import type { ToolContext } from "../agent/tool/context.ts";
import { executeTool, type ToolOutcome } from "../agent/tool/execute.ts";
import { definitionOf } from "../agent/tool/tool.ts";
import { systemClock } from "../base/clock.ts";
import { textOf } from "../contract/message.ts";
import type { Progress } from "../protocol/task.ts";
import { connectMcp, type McpConnection, type McpOptions, type McpServer } from "./index.ts";

const script = fileURLToPath(new URL("../../test/support/mcp-server.ts", import.meta.url));
const patience = { timeout: 30_000, interval: 20 };
const connections: McpConnection[] = [];
const servers: ChildProcess[] = [];

afterEach(async () => {
  await Promise.all(connections.splice(0).map((connection) => connection.close()));
  for (const server of servers.splice(0)) server.kill("SIGKILL");
});

async function connect(server: McpServer, options: McpOptions = {}): Promise<McpConnection> {
  const connection = await connectMcp(server, {
    prefix: "",
    reconnect: { initialBackoffMs: 20 },
    ...options,
  });
  connections.push(connection);
  return connection;
}

const program = (mode = "stdio"): McpServer => ({
  name: "test",
  command: process.execPath,
  args: [script, mode],
});

/** Starts the server on HTTP; `port` restarts it on the same port. */
async function serve(mode: string, port = "0"): Promise<{ url: string; process: ChildProcess }> {
  const server = spawn(process.execPath, [script, mode, port], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  servers.push(server);
  const [line] = await once(server.stdout, "data");
  return { url: String(line).trim(), process: server };
}
const headers = { "x-token": "secret" };

it.each([{}, { command: "" }, { url: "wiki" }, { command: "node", url: "http://127.0.0.1:9/" }])(
  "rejects a server without exactly one of command and url: %j",
  async (place) => {
    await expect(connectMcp({ name: "wiki", ...place } as McpServer)).rejects.toMatchObject({
      code: "invalid_mcp_server",
      message: expect.stringContaining("wiki"),
      hint: expect.stringContaining("https"),
    });
  },
);

interface CallOptions {
  readonly input?: Readonly<Record<string, unknown>>;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}
/** Calls a tool as the loop does. */
async function call(
  connection: McpConnection,
  name: string,
  { input = {}, signal = new AbortController().signal, onProgress }: CallOptions = {},
): Promise<ToolOutcome> {
  const tool = connection.tools().find((candidate) => candidate.name === name);
  if (!tool) throw new Error(`no tool ${name}`);
  return executeTool(definitionOf(tool), input, {
    execution: toolExecution,
    signal,
    clock: systemClock,
    random: Math.random,
    graceMs: 600_000, // a cancel must take effect without the grace
    makeContext: (_, own) =>
      ({ signal: own, progress: onProgress ?? (() => {}) }) as unknown as ToolContext,
  });
}
const said = (outcome: ToolOutcome) =>
  outcome.state === "suspended" ? outcome.reason : textOf(outcome.content);
const say = async (...args: Parameters<typeof call>) => said(await call(...args));

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe.each(["stdio", "stdio-2026", "http", "http-2026"])("a server over %s", (mode) => {
  let connection: McpConnection;
  const stops: (() => unknown)[] = [];

  beforeAll(async () => {
    if (mode.startsWith("stdio")) connection = await connectMcp(program(mode), { prefix: "" });
    else {
      const { url, process: server } = await serve(mode);
      servers.splice(servers.indexOf(server), 1);
      stops.push(() => server.kill("SIGKILL"));
      connection = await connectMcp({ name: "test", url, headers }, { prefix: "" });
    }
    stops.unshift(() => connection.close());
  });
  afterAll(async () => {
    for (const stop of stops) await stop();
  });

  it("lists all its tools over several pages", () => {
    const names = connection.tools().map(({ name }) => name);
    expect(names).toHaveLength(11);
    expect(names).toEqual(expect.arrayContaining(["echo", "odd_name_1", "grow"]));
    expect(connection.tools()[0]).toMatchObject({
      description: "Says what it is told.",
      inputSchema: { properties: { text: { type: "string" } }, required: ["text"] },
    });
  });

  it("runs calls and reports progress", async () => {
    expect(await say(connection, "echo", { input: { text: "hello" } })).toBe("hello");
    const progress: Progress[] = [];
    const onProgress = (next: Progress) => progress.push(next);
    expect(await say(connection, "count", { onProgress })).toBe("counted");
    expect(progress).toEqual([
      { progress: 1, total: 3, message: "step 1" },
      { progress: 2, total: 3, message: "step 2" },
      { progress: 3, total: 3, message: "step 3" },
    ]);
  });

  it("cancels a call and continues working", async () => {
    const session = await say(connection, "session");
    const controller = new AbortController();
    const { signal } = controller;
    const onProgress = () => controller.abort(new Error("enough"));
    const options = { input: { forever: true }, signal, onProgress };
    expect(await call(connection, "count", options)).toMatchObject({ state: "interrupted" });
    await expect.poll(() => say(connection, "cancelled"), patience).toBe("1");
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    expect(await say(connection, "session")).toBe(session);
  });

  it("reports changes of its tools", async () => {
    const lists: number[] = [];
    connection.onChange(() => {
      throw new Error("a listener that fails");
    });
    const stop = connection.onChange((tools) => lists.push(tools.length));
    expect(await say(connection, "grow")).toBe("grown");
    await expect.poll(() => lists, patience).toEqual([12]);
    expect(await say(connection, "grown")).toBe("new");
    stop();
  });

  it("that dies during a call yields an error result", async () => {
    const outcome = await call(connection, "crash");
    expect(outcome).toMatchObject({ state: "error", error: { code: "mcp_disconnected" } });
    expect(said(outcome)).toMatch(/^Tool execution failed: The MCP server test was lost/);
  });
});

describe("a program", () => {
  it("that is killed is restarted by the next call", async () => {
    const connection = await connect(program());
    const first = Number(await say(connection, "pid"));
    process.kill(first, "SIGKILL");
    await expect.poll(() => isRunning(first), patience).toBe(false);
    const again = await Promise.all([say(connection, "pid"), say(connection, "pid")]);
    expect(Number(again[0])).toBeGreaterThan(0);
    expect(again[0]).not.toBe(String(first));
    expect(again[1]).toBe(again[0]);
  });

  it("that dies during a call is restarted by the next one, and its last output is reported", async () => {
    const connection = await connect(program());
    const outcome = await call(connection, "crash");
    expect(outcome).toMatchObject({ error: { hint: expect.stringContaining("about to crash") } });
    expect(await say(connection, "echo", { input: { text: "back" } })).toBe("back");
  });

  it("ends with close, and later calls fail", async () => {
    const connection = await connect(program());
    const pid = Number(await say(connection, "pid"));
    const pending = call(connection, "count", { input: { forever: true } });
    await connection.close();
    expect(isRunning(pid)).toBe(false);
    expect((await pending).state).toBe("error");
    expect(await call(connection, "pid")).toMatchObject({ error: { code: "mcp_closed" } });
  });

  it("that does not exit is killed", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rivulet-mcp-"));
    const file = join(folder, "stubborn.mjs");
    writeFileSync(
      file,
      `process.on("SIGTERM", () => {}); setInterval(() => {}, 1000); process.argv[2] = "stdio";
       await import(${JSON.stringify(pathToFileURL(script).href)});`,
    );
    const connection = await connect({ name: "stubborn", command: process.execPath, args: [file] });
    const pid = Number(await say(connection, "pid"));
    await connection.close();
    expect(isRunning(pid)).toBe(false);
    rmSync(folder, { recursive: true });
  });

  it("that cannot be started throws with a hint", async () => {
    const missing = { name: "missing", command: "no-such-program-anywhere" };
    await expect(connect(missing)).rejects.toMatchObject({
      code: "mcp_unavailable",
      message: expect.stringContaining("missing"),
      hint: expect.stringContaining("no-such-program-anywhere"),
    });
    const args = ["-e", "console.error('bad config'); process.exit(1)"];
    await expect(connect({ name: "bad", command: process.execPath, args })).rejects.toMatchObject({
      code: "mcp_unavailable",
      hint: "Check the server's last output: bad config",
    });
  });

  it("that never answers times out and is ended", async () => {
    const args = ["-e", "console.error(process.pid); setInterval(() => {}, 1000)"];
    const mute = { name: "mute", command: process.execPath, args };
    const error = await connect(mute, { connectTimeoutMs: 500 }).catch((reason) => reason);
    expect(error).toMatchObject({ code: "mcp_unavailable" });
    expect(isRunning(Number(/\d+/.exec(error.hint)?.[0]))).toBe(false);
  });

  it("gets the given environment, and not ours", async () => {
    process.env.RIVULET_TEST_SECRET = "secret";
    const args = ["-e", "console.error(JSON.stringify(process.env)); process.exit(1)"];
    const env = { GIVEN: "yes" };
    const error = await connect({ name: "env", command: process.execPath, args, env }).catch(
      (e) => e,
    );
    delete process.env.RIVULET_TEST_SECRET;
    expect(error.hint).toContain('"GIVEN":"yes"');
    expect(error.hint).not.toContain("RIVULET_TEST_SECRET");
  });

  it("has every kind of content converted to blocks", async () => {
    const connection = await connect(program());
    expect(await call(connection, "show")).toMatchObject({
      state: "success",
      content: [
        { type: "text", text: "here" },
        { type: "image", source: { data: "aW1hZ2U=", mimeType: "image/png" } },
        { type: "audio", source: { data: "c291bmQ=", mimeType: "audio/wav" } },
        { type: "text", text: "inside" },
        { type: "file", source: { data: "cGRm", mimeType: "application/pdf" } },
        { type: "image", source: { data: "cG5n", mimeType: "image/png" } },
        { type: "text", text: "a page: https://example.com/a" },
      ],
    });
    expect(await say(connection, "measure")).toBe('{"metres":3}');
    const failure = await call(connection, "fail");
    expect(failure).toMatchObject({ state: "error", error: { code: "mcp_tool_error" } });
    expect(said(failure)).toBe("Tool execution failed: the disk is full");
  });

  it("has tools with the prefix, and marks idempotent ones", async () => {
    const connection = await connect(program(), { prefix: "t_", execution: { timeoutMs: 5 } });
    const definitions = connection.tools().map(definitionOf);
    expect(definitions.every(({ name }) => name.startsWith("t_"))).toBe(true);
    const idempotent = definitions.filter((definition) => definition.idempotent);
    expect(idempotent.map(({ name }) => name)).toEqual(["t_echo"]);
    expect(definitions[0]?.execution).toEqual({ timeoutMs: 5 });
  });
});

describe.each(["http", "http-2026"])("an address over %s", (mode) => {
  it("that is gone fails calls, and is reconnected when it is back", async () => {
    const { url, process: server } = await serve(mode);
    const { port } = new URL(url);
    const connection = await connect({ name: "test", url, headers });
    server.kill("SIGKILL");
    await once(server, "exit");
    expect(await call(connection, "pid")).toMatchObject({ state: "error" });
    const down = await call(connection, "pid");
    expect(down).toMatchObject({
      error: { code: "mcp_unavailable", hint: expect.stringContaining(port) },
    });
    const again = await serve(mode, port);
    expect(await say(connection, "pid")).toBe(String(again.process.pid));
  });

  it("is reconnected after a restart between two calls", async () => {
    const { url, process: server } = await serve(mode);
    const connection = await connect({ name: "test", url, headers });
    await call(connection, "pid");
    server.kill("SIGKILL");
    await once(server, "exit");
    const again = await serve(mode, new URL(url).port);
    expect(await say(connection, "pid")).toBe(String(again.process.pid));
    await call(connection, "grow");
    await expect.poll(() => connection.tools().length, patience).toBe(12);
  });

  it("whose stream breaks during a call fails it at once", async () => {
    const { url, process: server } = await serve(mode);
    const connection = await connect({ name: "test", url, headers });
    const onProgress = () => server.kill("SIGKILL");
    const outcome = await call(connection, "count", { input: { forever: true }, onProgress });
    expect(outcome).toMatchObject({ state: "error", error: { code: "mcp_disconnected" } });
  });

  it("that rejects the connection throws", async () => {
    const { url } = await serve(mode);
    await expect(connect({ name: "test", url })).rejects.toMatchObject({ code: "mcp_unavailable" });
  });
});

it("a cancel and a close end the wait for a lost server", async () => {
  const { url, process: server } = await serve("http");
  const connection = await connect(
    { name: "test", url, headers },
    { reconnect: { maxAttempts: 9, initialBackoffMs: 600_000, maxBackoffMs: 600_000 } },
  );
  server.kill("SIGKILL");
  await once(server, "exit");
  await call(connection, "pid");
  const controller = new AbortController();
  const outcome = call(connection, "pid", { signal: controller.signal });
  setImmediate(() => controller.abort());
  expect(await outcome).toMatchObject({ state: "interrupted" });
  const other = call(connection, "pid");
  await connection.close();
  expect(await other).toMatchObject({ error: { code: "mcp_closed" } });
});

it("rejects an invalid url", async () => {
  await expect(connect({ name: "test", url: "not a url" })).rejects.toMatchObject({
    code: "invalid_mcp_server",
    hint: expect.stringMatching(/https/),
  });
});
