// curl and Python follow runs of a real server over real sockets, without this package.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HarnessAgent, memoryStore, tool } from "../src/index.ts";
import { encodeRetry } from "../src/protocol/sse.ts";
import { decodeSse, encodeSse, type StreamFrame } from "../src/protocol.ts";
import { type Serving, serve } from "../src/server.ts";
import { scriptedModel } from "../src/testing.ts";
import { requires } from "./support/requires.ts";

const program = "examples/python/reader.py";

const read = (url: string, token: string, agent = "lead") =>
  python([program, url, agent, "Plan."], { RIVULET_TOKEN: token });

const python = (args: readonly string[], env: Readonly<Record<string, string>>) =>
  start("python3", ["-B", ...args], { PYTHONIOENCODING: "utf-8", ...env });

async function start(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
) {
  const child = spawn(command, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  return { status: status as number | null, stdout, stderr };
}

/** A proxy that cuts each of the first connections after a few more bytes of its response than the one before. */
class CuttingProxy {
  cuts = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(port: number, step: number, most: number) {
    this.#server = createServer((client) => {
      const server = connect(port, "127.0.0.1");
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on("error", () => socket.destroy());
        socket.on("close", () => [client, server].map((one) => one.destroy()));
      }
      client.pipe(server);
      let left = this.cuts < most ? 1_000 + step * this.cuts : Number.POSITIVE_INFINITY;
      server.on("data", (chunk) => {
        client.write(chunk.subarray(0, Math.min(left, chunk.length)));
        left -= chunk.length;
        if (left > 0 || client.destroyed) return;
        this.cuts++;
        client.destroySoon();
      });
      server.on("end", () => client.end());
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

let serving: Serving;

beforeAll(async () => {
  const store = memoryStore();
  const settings = { store, filesystem: false as const };
  const lead = new HarnessAgent({
    ...settings,
    name: "lead",
    subagents: [{ name: "researcher", description: "Looks." }],
    model: scriptedModel(({ tools, assistantCount }) => {
      if (!tools?.some(({ name }) => name === "agent_spawn"))
        return { text: ["Fo", "und ", "naïve 漢字 ", "👩‍🚀."] };
      const input = { agent_id: "researcher", task: "Look." };
      return assistantCount > 0 ? { text: ["Do", "ne."] } : { call: "agent_spawn", input };
    }),
  });
  const host = new HarnessAgent({
    ...settings,
    name: "host",
    tools: [
      tool({ name: "order", description: "Orders.", needsApproval: true, execute: () => "Ok." }),
    ],
    model: scriptedModel([{ call: "order" }, "Ordered."]),
  });
  serving = await serve({ agents: [lead, host], port: 0, retryMs: 5, log: false });
});
afterAll(() => serving.close());

const guide = readFileSync("docs/guide/other-languages.md", "utf8");

describe.runIf(requires("curl"))("curl", () => {
  const commands = Array.from(guide.matchAll(/^```sh\n(.*?)^```$/gms), ([, code = ""]) => code)
    .filter((code) => code.includes("curl"))
    .map((code) => code.replaceAll("curl ", "curl -sS "));

  async function sh(code: string | undefined, env: Readonly<Record<string, string>> = {}) {
    const { url: URL, token: TOKEN } = serving;
    const { status, stdout, stderr } = await start("sh", ["-ec", code ?? ""], {
      URL,
      TOKEN,
      ...env,
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    return stdout;
  }
  const eventsOf = (stream: string) => decodeSse(stream) as readonly { sequence_number?: number }[];

  it("starts a task once, follows it with its subagent, and resumes, as in the guide", async () => {
    const [create, follow, resume] = commands;
    const { id } = JSON.parse(await sh(create)) as { id: string };
    expect(JSON.parse(await sh(create))).toMatchObject({ id });
    const all = eventsOf(await sh(follow, { TASK: id }));
    expect(all.at(-1)).toMatchObject({ type: "stream.closed", final: true });
    expect(JSON.stringify(all)).toContain("naïve 漢字 👩‍🚀");
    const isNew = ({ sequence_number: number }: { sequence_number?: number }) =>
      Number(number) > 12;
    const rest = eventsOf(await sh(resume, { TASK: id }));
    expect(rest.filter(isNew)).toEqual(all.filter(isNew));
    expect(rest.filter(({ sequence_number: number }) => Number(number) <= 12)).toEqual([]);
  });

  it("lists an approval, answers it and reads the document, as in the guide", async () => {
    const [list = "", answer = "", show = ""] = (commands[3] ?? "").split(/^(?=curl)/m);
    const create = commands[0]?.replace('"lead"', '"host"');
    const task = JSON.parse(await sh(create)) as { id: string; session_id: string };
    const env = { TASK: task.id, SESSION: task.session_id };
    await sh(commands[1]?.replace("/events", "/events?until=idle"), env);
    const { approvals } = JSON.parse(await sh(list, env)) as {
      approvals: { approval_id: string }[];
    };
    const [approval] = approvals;
    await sh(answer, { ...env, APPROVAL: approval?.approval_id ?? "" });
    await sh(commands[1], env);
    expect(await sh(show, env)).toContain("Ordered.");
  });
});

describe.runIf(requires("python3"))("the Python reader", () => {
  const nested = "\n  researcher: Found naïve 漢字 👩‍🚀.\nlead: Done.\n";

  it("has at most 60 lines of code, without blank lines and its description", () => {
    const code = readFileSync(program, "utf8").replace(/^""".*?"""\n/s, "");
    expect(code.split("\n").filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(60);
    const modules = /^import (.*)$/m.exec(code)?.[1]?.split(", ");
    expect(modules).toEqual(
      "http.client json os random sys time urllib.error urllib.request uuid".split(" "),
    );
  });

  it("prints the text of an agent and its subagent", async () => {
    expect(await read(serving.url, serving.token)).toEqual({
      status: 0,
      stdout: nested,
      stderr: "",
    });
  });

  it("prints the same when the connection breaks again and again", async () => {
    const proxy = new CuttingProxy(Number(new URL(serving.url).port), 250, 30);
    try {
      expect(await read(await proxy.listen(), serving.token)).toEqual({
        status: 0,
        stdout: nested,
        stderr: "",
      });
      expect(proxy.cuts).toBeGreaterThan(5);
    } finally {
      proxy.close();
    }
  });

  it("works as the short program of the guide", async () => {
    const [, code = ""] = /^```python\n(.*?)^```$/ms.exec(guide) ?? [];
    const env = { URL: serving.url, TOKEN: serving.token };
    expect(await python(["-c", code], env)).toEqual({
      status: 0,
      stdout: nested.replace("\n  ", ""),
      stderr: "",
    });
  });

  it.each([
    ["the token is wrong", "wrong-token-wrong-token", "lead", '"code":"unauthorized"'],
    ["the agent does not exist", undefined, "leader", '"code":"not_found"'],
  ])("prints the error of the server and stops if %s", async (_, token, agent, message) => {
    const { status, stderr } = await read(serving.url, token ?? serving.token, agent);
    expect(stderr).toContain(message);
    expect(status).toBe(1);
  });

  it("continues after snapshots, and reports a lost event by connecting again", async () => {
    const at = { task_id: "task_r", created_at: 1, item_id: "m", output_index: 0, block_index: 0 };
    const item = (shown: string) => ({
      ...{ type: "message", id: "m", role: "assistant", status: "in_progress" },
      block_list: [{ type: "text", text: shown, status: "in_progress" }],
    });
    const delta = (number: number, shown: string) => ({
      ...{ type: "task.text.delta", sequence_number: number, task_seq: number, delta: shown },
      ...at,
    });
    const snapshot = {
      ...{ type: "task.snapshot", task_id: "task_r", created_at: 1, final: true },
      ...{ through_sequence_number: 5, through_task_seq: 5 },
      task: { id: "task_r", object: "task", status: "in_progress", output: [item("Good ")] },
    };
    const closed = {
      type: "stream.closed",
      reason: "terminal",
      final: true,
      last_sequence_number: 8,
    };
    // Event 7 is lost on the first connection.
    const connections = [
      [snapshot, delta(6, "mor"), delta(8, "ing.")],
      [delta(7, "n"), delta(8, "ing."), closed],
    ];
    const asked: (string | null)[] = [];
    const server = createHttpServer((request, response) => {
      const url = new URL(request.url ?? "", "http://localhost");
      if (request.method === "POST") return void response.end('{"id":"task_r"}');
      asked.push(url.searchParams.get("starting_after"));
      const frames = (connections[asked.length - 1] ?? []) as unknown as readonly StreamFrame[];
      response.end(encodeRetry(5) + frames.map((frame) => encodeSse(frame)).join(""));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const { port } = server.address() as AddressInfo;
      const { stdout, stderr } = await read(`http://127.0.0.1:${port}`, "any");
      expect({ stdout, stderr, asked }).toEqual({
        stdout: "\nlead: Good morning.\n",
        stderr: "",
        asked: ["-1", "6"],
      });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});
