import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { afterEach, expect, it, vi } from "vitest";
import { SseDecoder } from "../../src/protocol/sse.ts";
import { agentScopeAnswer } from "./support/foreign-behaviours.ts";
import {
  closedFrame,
  frameOf,
  hostileServer,
  openedFrame,
  openStream,
  type Sent,
  type Story,
} from "./support/hostile-server.ts";
import { rawServer } from "./support/raw-server.ts";
import { scripted, spawn, storeOf } from "./support/team.ts";

/** The bytes that Node reads from a socket at once. One chunk may be left from the turn before. */
const maxTurnBytes = 2 * 65_536;
/** The largest event that a reader takes is that of a whole text. */
const maxEventChars = 8 * 1024 * 1024;

afterEach(() => {
  vi.restoreAllMocks();
});

/** Runs a child, and returns how it ended and the most bytes that were decoded and parsed in one turn of the event loop. */
async function mostPerTurn(place: object) {
  const most = { decoded: 0, parsed: 0 };
  const inTurn = { decoded: 0, parsed: 0 };
  const count = (kind: keyof typeof most, amount: number) => {
    if (inTurn.decoded + inTurn.parsed === 0)
      setImmediate(() => Object.assign(inTurn, { decoded: 0, parsed: 0 }));
    inTurn[kind] += amount;
    most[kind] = Math.max(most[kind], inTurn[kind]);
  };
  const { push } = SseDecoder.prototype;
  vi.spyOn(SseDecoder.prototype, "push").mockImplementation(function (this: SseDecoder, chunk) {
    count("decoded", chunk.length);
    return push.call(this, chunk);
  });
  const { parse } = JSON;
  vi.spyOn(JSON, "parse").mockImplementation((text, ...more) => {
    count("parsed", text.length);
    return parse(text, ...more);
  });
  const limits = { lostAfterMs: 100 };
  const far = { name: "far", description: "Far.", allowPrivateNetwork: true, limits, ...place };
  const lead = scripted("lead", [[spawn("far")], "Done."], { subagents: [far as never] });
  await lead.call("Go.", { sessionId: "s" });
  const [child] = await storeOf(lead).tasks({ parentSessionId: "s" });
  return { outcome: child?.error?.code ?? child?.status, ...most };
}

const bomb = gzipSync(Buffer.alloc(100_000_000, " "));
const lines = gzipSync(Buffer.alloc(100_000_000, "\n"));
const sendBomb = (response: ServerResponse, bytes: Buffer) => {
  const headers = { "content-type": "text/event-stream", "content-encoding": "gzip" };
  response.writeHead(200, headers).end(bytes);
};
const sendHuge = (response: ServerResponse) => {
  openStream(response);
  response.end(`data: {"type":"x","value":"${"x".repeat(20_000_000)}"}\n\n`);
};

const attacks: Readonly<Record<string, readonly [string, (response: ServerResponse) => void]>> = {
  "a gzip bomb": ["event_too_large", (response) => sendBomb(response, bomb)],
  "a gzip bomb of blank lines": ["remote_lost", (response) => sendBomb(response, lines)],
  "an event of 20 MB": ["event_too_large", sendHuge],
};
const cases = Object.entries(attacks).map(
  ([title, [outcome, send]]) => [title, outcome, send] as const,
);

it.each(cases)(
  "decodes at most two chunks of %s in each turn, and ends with %s",
  async (_, outcome, send) => {
    await using server = await hostileServer({ stream: send });
    const most = await mostPerTurn({ url: `${server.url}/agents/a` });
    expect(most.outcome).toBe(outcome);
    expect(most.decoded).toBeLessThanOrEqual(maxTurnBytes);
    expect(most.parsed).toBeLessThan(maxTurnBytes);
  },
);

it.each(cases)(
  "decodes at most two chunks of %s of an AgentScope server in each turn, and ends with %s",
  async (_, outcome, send) => {
    const answer = agentScopeAnswer({
      status: (__, response) => void response.end('{"status":"running"}'),
      events: (__, response) => send(response),
    });
    await using server = await rawServer(answer);
    const place = { url: `${server.url}/agents/a`, protocol: "agentscope" };
    const most = await mostPerTurn(place);
    expect(most.outcome).toBe(outcome);
    expect(most.decoded).toBeLessThanOrEqual(maxTurnBytes);
    expect(most.parsed).toBeLessThan(maxTurnBytes);
  },
);

/** Sends a text of almost the largest size: in pieces, as a whole, and once more in its message. */
function sendLongText(response: ServerResponse, { events }: Story, opened: string): void {
  const text = "y".repeat(maxEventChars - 1_000);
  let at = 0;
  const next = (event: Sent) => frameOf({ ...event, sequence_number: at, task_seq: at++ });
  const [created, begun, added, textAdded, delta, , textDone, done, ...rest] = events as Sent[];
  const whole = { ...(textDone?.item as Sent), text };
  openStream(response);
  response.write(opened);
  for (const event of [created, begun, added, textAdded]) response.write(next(event as Sent));
  for (let from = 0; from < text.length; from += 60_000)
    response.write(next({ ...delta, delta: text.slice(from, from + 60_000) }));
  response.write(next({ ...textDone, item: whole }));
  response.write(next({ ...done, item: { ...(done?.item as Sent), block_list: [whole] } }));
  for (const event of rest) response.write(next(event));
  response.end(closedFrame);
}

it("parses one of the largest events that it takes in each turn", async () => {
  await using server = await hostileServer({
    stream: (response, story) => sendLongText(response, story, openedFrame(story)),
  });
  const most = await mostPerTurn({ url: `${server.url}/agents/a` });
  expect(most.outcome).toBe("completed");
  expect(most.decoded).toBeLessThanOrEqual(maxTurnBytes);
  expect(most.parsed).toBeGreaterThan(maxEventChars - 1_000);
  expect(most.parsed).toBeLessThanOrEqual(maxEventChars + maxTurnBytes);
});
