import { createHash } from "node:crypto";
import { afterEach } from "vitest";
import { z } from "zod";
import {
  type Agent,
  agentTool,
  memoryStore,
  ReActAgent,
  type ReActAgentOptions,
  type Store,
  tool,
} from "../../../src/index.ts";
import type { StreamFrame, TaskEvent } from "../../../src/protocol/event.ts";
import { emptyTree, reduce } from "../../../src/protocol/reduce.ts";
import { decodeSse } from "../../../src/protocol/sse.ts";
import type { Tree } from "../../../src/protocol/task.ts";
import { type RequestLog, type ServeOptions, type Serving, serve } from "../../../src/server.ts";
import { type Script, scriptedModel } from "../../../src/testing.ts";
import { collect } from "../../agent/support/collect.ts";

/** The tokens of two users, of one who may only read, and of one who may do nothing. */
export const tokens = {
  ann: "ann-0123456789abcdef",
  bob: "bob-0123456789abcdef",
  reader: "reader-0123456789abcdef",
  nothing: "nothing-0123456789abcdef",
};
const auth = {
  tokens: {
    [tokens.ann]: { userId: "ann" },
    [tokens.bob]: { userId: "bob" },
    [tokens.reader]: { userId: "ann", scopes: ["read"] },
    [tokens.nothing]: { userId: "ann", scopes: [] },
  },
} as const;

/** The id under which a server stores what a user has named. */
export function stored(name: string, user = "ann"): string {
  return `${name}~${createHash("sha256").update(user).digest("base64url").slice(0, 16)}`;
}

const running: Serving[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((serving) => serving.close()));
});

/** A server on a free port, which ends with the test, and its log. */
export async function startServer(options: Omit<ServeOptions, "port">) {
  const lines: RequestLog[] = [];
  const serving = await serve({ auth, log: (line) => lines.push(line), ...options, port: 0 });
  running.push(serving);
  return { ...serving, lines, as: (token: string) => client(serving.url, token) };
}

/** A client of a server: plain fetch. */
export function client(url: string, token?: string) {
  const credential: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  async function send(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) {
    const json: Record<string, string> =
      body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...credential, ...json, ...headers },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    return response;
  }
  async function json(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) {
    const response = await send(method, path, body, headers);
    const text = await response.text();
    const isJson = (response.headers.get("content-type") ?? "").includes("json");
    return {
      status: response.status,
      headers: response.headers,
      text,
      // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of all shapes
      body: (isJson && text !== "" && !text.includes("\n") ? JSON.parse(text) : text) as any,
    };
  }
  return {
    send,
    get: (path: string, headers = {}) => json("GET", path, undefined, headers),
    post: (path: string, body: unknown = {}, headers = {}) => json("POST", path, body, headers),
    delete: (path: string) => json("DELETE", path),
    /** The frames of a stream until it ends. */
    async frames(path: string, headers = {}): Promise<readonly StreamFrame[]> {
      const response = await send("GET", path, undefined, headers);
      if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
      return collect(decodeSse(response.body as ReadableStream<Uint8Array>));
    },
  };
}

/** The task events of some frames. */
export function eventsOf(frames: readonly StreamFrame[]): TaskEvent[] {
  return frames.filter((frame): frame is TaskEvent => !frame.type.startsWith("stream."));
}

/** The tree of some frames. */
export function treeOf(
  frames: readonly StreamFrame[],
  before: Tree = emptyTree(),
  options: { filtered?: boolean } = {},
): Tree {
  return reduce(before, eventsOf(frames), options);
}

/** An agent with a script; `remove` asks before it runs. */
export function scripted(
  script: Script,
  options: Partial<ReActAgentOptions> = {},
): { readonly agent: Agent; readonly store: Store } {
  // Without merged deltas, so that the events are those of the script.
  const store = (options.store as Store | undefined) ?? memoryStore({ flushMs: 0 });
  const remove = tool({
    name: "remove",
    description: "Removes a file.",
    input: z.object({ path: z.string() }),
    needsApproval: true,
    execute: ({ path }) => `removed ${path}`,
  });
  const model = scriptedModel(script);
  return {
    agent: new ReActAgent({ name: "lead", model, tools: [remove], ...options, store }),
    store,
  };
}

/** An agent whose child has a child; each level says something in several deltas. */
export function nested(store: Store, pauseMs = 0): Agent {
  const pause = pauseMs > 0 ? [{ delayMs: pauseMs }] : [];
  const says = (words: string) => ({ text: words.split(/(?<= )/) });
  const worker = new ReActAgent({
    name: "worker",
    model: scriptedModel(
      [[{ thinking: ["I ", "dig. "] }, ...pause, says("The worker digs deep.")]],
      {
        by: "prompt",
      },
    ),
    store,
  });
  const helper = new ReActAgent({
    name: "helper",
    model: scriptedModel(
      [[{ call: "worker", input: { prompt: "Dig." } }], [...pause, says("The helper reports.")]],
      { by: "prompt" },
    ),
    tools: [agentTool(worker)],
    store,
  });
  return new ReActAgent({
    name: "lead",
    model: scriptedModel(
      [
        [
          { thinking: "Two helpers." },
          ...[1, 2].map((n) => ({ call: "helper", input: { prompt: `Help ${n}.` } })),
        ],
        [...pause, says("The lead sums up what both have found.")],
      ],
      { by: "prompt" },
    ),
    tools: [agentTool(helper)],
    store,
  });
}
