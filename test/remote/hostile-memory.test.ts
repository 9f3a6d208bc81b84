import { execFile } from "node:child_process";
import type { ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, it } from "vitest";
import { a2aAnswer, agentScopeAnswer } from "./support/foreign-behaviours.ts";
import { hostileServer, openStream } from "./support/hostile-server.ts";
import { rawServer } from "./support/raw-server.ts";

const program = fileURLToPath(new URL("./support/hostile-lead.ts", import.meta.url));
const gigabyte = 1_000_000_000;
/** How much more memory than an honest child a hostile one may take; each attack offers a gigabyte. */
const allowedMb = 200;

/** Runs a child in a process of its own. */
async function peakOf(place: object): Promise<{ outcome: string; peakMb: number }> {
  const args = ["--disable-warning=ExperimentalWarning", program, JSON.stringify(place)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout);
}

let honestMb = 0;
beforeAll(async () => {
  await using server = await hostileServer({});
  const { outcome, peakMb } = await peakOf({ url: `${server.url}/agents/a` });
  expect(outcome).toBe("completed");
  honestMb = peakMb;
}, 120_000);

/** Writes pieces until a gigabyte is sent or the reader leaves. */
function pour(response: ServerResponse, piece: (n: number) => string): void {
  let sent = 0;
  let n = 0;
  const write = () => {
    while (sent < gigabyte && !response.destroyed) {
      const next = piece(n++);
      sent += next.length;
      if (!response.write(next)) return void response.once("drain", write);
    }
    response.end();
  };
  write();
}

/** Members of a gzip file follow each other, so that a gigabyte of spaces needs a megabyte. */
const bomb = Buffer.concat(Array(100).fill(gzipSync(Buffer.alloc(gigabyte / 100, " "))));

const filler = "x".repeat(60_000);
const attacks: Readonly<
  Record<string, (response: ServerResponse, event: (n: number) => object) => void>
> = {
  "events without an end": (response, event) => {
    openStream(response);
    pour(response, (n) => `data: ${JSON.stringify(event(n))}\n\n`);
  },
  "an event of a gigabyte": (response) => {
    openStream(response);
    pour(response, (n) => (n === 0 ? "data: " : filler));
  },
  "a gigabyte in a gzip bomb": (response) => {
    const type = "text/event-stream";
    response.writeHead(200, { "content-type": type, "content-encoding": "gzip" }).end(bomb);
  },
};

const cases = Object.entries(attacks);
const timeout = 120_000;

async function expectBounded(place: object, outcome: string): Promise<void> {
  const result = await peakOf(place);
  expect(result.outcome).toBe(outcome);
  expect(result.peakMb - honestMb).toBeLessThan(allowedMb);
}

describe("a hostile server takes a bounded amount of memory with", { timeout }, () => {
  it.each(cases)("%s, as a Rivulet server", async (title, attack) => {
    await using server = await hostileServer({
      stream(response, { taskId: task_id, events: [created, begun] }) {
        attack(response, (n) => {
          const numbers = { task_id, sequence_number: n, task_seq: n, created_at: 1 };
          const custom = { type: "task.custom", name: "x", value: filler, ...numbers };
          return (n === 0 ? created : n === 1 ? begun : custom) ?? custom;
        });
      },
    });
    const isEndless = title === "events without an end";
    const outcome = isEndless ? "remote_too_large" : "event_too_large";
    await expectBounded({ url: `${server.url}/agents/a` }, outcome);
  });

  it.each(cases)("%s, as an AgentScope server", async (title, attack) => {
    const answer = agentScopeAnswer({
      status: (_, response) => void response.end('{"status":"running"}'),
      events: (_, response) =>
        attack(response, (n) => ({ seq: n + 1, type: "TEXT_DELTA", text: filler })),
    });
    await using server = await rawServer(answer);
    const isEndless = title === "events without an end";
    const outcome = isEndless ? "remote_too_large" : "event_too_large";
    await expectBounded({ url: `${server.url}/agents/a`, protocol: "agentscope" }, outcome);
  });

  it.each(cases)("%s, as an A2A server", async (title, attack) => {
    const answer = a2aAnswer({
      send: ({ body: { id } }, response) => {
        const place = { taskId: "task_there", contextId: "there" };
        const artifact = { artifactId: "a", parts: [{ text: filler }] };
        const result = { artifactUpdate: { ...place, append: true, artifact } };
        attack(response, () => ({ jsonrpc: "2.0", id, result }));
      },
    });
    await using server = await rawServer(answer);
    const outcome = title === "events without an end" ? "remote_too_large" : "remote_lost";
    await expectBounded({ a2a: `${server.url}/card.json` }, outcome);
  });
});
