// What a page pays for each token. `recordRun` writes the bytes of a run that a side sends; `node fold.ts <side> <folder>`
// gives them to the documented client in a new process, each frame in a turn of its own, as a network does, and prints the
// microseconds of CPU per token, without those of the empty loop.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { connect as connectTo, createTaskStore } from "../../src/client.ts";
import { load } from "../../tools/peers/load.js";
import type { ServerMark } from "./messages.ts";
import { ask, type Contestant, startServer, stop } from "./pipe.ts";

/** How many tokens the run has. */
const foldedTokens = 10_000;

type FoldedSide = "rivulet" | "ai-sdk";

/** The parts of the AI SDK that its documentation uses in a page. */
interface AiClient {
  readonly DefaultChatTransport: new (
    options: object,
  ) => { sendMessages(options: object): Promise<object> };
  readUIMessageStream(options: object): AsyncIterable<unknown>;
}

/** Runs a side once, 20 times as fast as a model, and writes what it sends. */
export async function recordRun(
  side: FoldedSide,
  workload: "flat" | "nested",
  folder: string,
): Promise<void> {
  const tokens = workload === "nested" ? Math.floor(foldedTokens / 3) : foldedTokens;
  const contestant: Contestant = { side, workload, tokens };
  const { server, listening } = await startServer(contestant);
  try {
    const { port, path, headers, body } = listening;
    const address = `http://127.0.0.1:${port}`;
    const request = {
      method: "POST",
      headers: { "content-type": "application/json", "accept-encoding": "identity", ...headers },
      body: JSON.stringify(body),
    };
    const response = await fetch(`${address}${path}`, request);
    await ask<ServerMark>(server, { op: "go", speed: 20 });
    const text = await response.text();
    writeFileSync(join(folder, "frames"), text);
    const id = /"task_id":"([^"]+)"/.exec(text)?.[1];
    const task = id && (await (await fetch(`${address}/v1/tasks/${id}`, { headers })).text());
    writeFileSync(join(folder, "task"), task ?? "");
  } finally {
    await stop(server);
  }
}

/** Measures the client of a side in a new process. */
export async function foldMicros(side: FoldedSide, folder: string): Promise<number> {
  const flags = ["--expose-gc", "--disable-warning=ExperimentalWarning"];
  const program = [...flags, fileURLToPath(import.meta.url), side, folder];
  const { stdout } = await promisify(execFile)(process.execPath, program);
  return Number(stdout);
}

async function main(side: FoldedSide, folder: string): Promise<void> {
  const text = readFileSync(join(folder, "frames"), "utf8");
  const frames = text.split(/(?<=\n\n)/).map((frame) => Buffer.from(frame));
  const response = () => {
    let next = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          await new Promise((resolve) => setImmediate(resolve));
          const frame = frames[next++];
          if (frame) controller.enqueue(frame);
          else controller.close();
        },
      },
      { highWaterMark: 1 },
    );
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  const drain = async () => {
    for await (const _ of response().body ?? []);
  };
  const play =
    side === "rivulet" ? await rivuletPage(response, text, folder) : await aiPage(response);
  const folded = await play();
  const words = folded.match(/~/g)?.length ?? 0;
  if (words < foldedTokens - 1) throw new Error(`${words} tokens arrived`);
  await cpuMicros(drain);
  const empty = await cpuMicros(drain);
  const full = await cpuMicros(play);
  console.log((full - empty) / foldedTokens);
}

async function cpuMicros(work: () => Promise<unknown>): Promise<number> {
  globalThis.gc?.();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** A page with a task store, which draws at most each 16 ms. */
async function rivuletPage(response: () => Response, frames: string, folder: string) {
  const id = /"task_id":"([^"]+)"/.exec(frames)?.[1] ?? "";
  const task = readFileSync(join(folder, "task"), "utf8");
  const fetch: typeof globalThis.fetch = async (url) => {
    const address = url instanceof Request ? url.url : String(url);
    if (address.includes("/events")) return response();
    return new Response(task, { headers: { "content-type": "application/json" } });
  };
  return async () => {
    const run = connectTo("http://localhost:1", { token: "x", fetch }).task(id);
    const store = createTaskStore(run, { schedule: (update) => void setTimeout(update, 16) });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const unsubscribe = store.subscribe(() => {
      const { connection } = store.getSnapshot();
      if (connection.status !== "closed") return;
      unsubscribe();
      if (connection.error) reject(connection.error);
      else resolve();
    });
    await promise;
    return JSON.stringify(store.getSnapshot().tree);
  };
}

async function aiPage(response: () => Response) {
  const { DefaultChatTransport, readUIMessageStream } = (await load("ai")) as AiClient;
  return async () => {
    const transport = new DefaultChatTransport({
      api: "http://localhost:1/",
      fetch: async () => response(),
    });
    const request = { chatId: "c", messages: [], trigger: "submit-message" };
    const stream = await transport.sendMessages(request);
    let last: unknown;
    for await (const message of readUIMessageStream({ stream })) last = message;
    return JSON.stringify(last);
  };
}

const [side, folder] = process.argv.slice(2);
if (import.meta.main && folder !== undefined) await main(side as FoldedSide, folder);
