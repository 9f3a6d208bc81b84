import type { Clock } from "../../../src/base/clock.ts";
import type { ConnectOptions } from "../../../src/client/request.ts";
import { connect, type RemoteServer } from "../../../src/client.ts";
import type { Agent } from "../../../src/contract/agent.ts";
import { type ServeOptions, type Serving, serve } from "../../../src/server.ts";

/** A server on a free port, and a client of it. */
export interface Served extends AsyncDisposable {
  readonly server: Serving;
  readonly remote: RemoteServer;
}

export async function serveAgents(
  agents: readonly Agent[],
  options: Partial<ServeOptions> = {},
  client: ConnectOptions = {},
): Promise<Served> {
  const server = await serve({ agents, port: 0, log: false, retryMs: 1, ...options });
  const remote = connect(server.url, { token: server.token, ...client });
  return { server, remote, [Symbol.asyncDispose]: () => server.close() };
}

const id = /\b(task|rs|fc|fco|msg|call|apr|sess|blk|post)_[0-9A-Z]{26}\b/g;
const uuid = /\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;

/** JSON in which the ids are numbered in the order of their appearance, so that two runs can be compared. */
export function comparable(value: unknown): unknown {
  const numbers = new Map<string, string>();
  const name = (found: string, prefix: string) => {
    const known = numbers.get(found) ?? `${prefix}_${numbers.size}`;
    numbers.set(found, known);
    return known;
  };
  const text = JSON.stringify(value, (key, field: unknown) =>
    key === "metadata" ? undefined : field,
  );
  return JSON.parse(
    text
      .replace(id, (found, prefix: string) => name(found, prefix))
      .replace(uuid, (found) => name(found, "uuid")),
  );
}

/** Delays and silences take no time: a delay ends at once, a heartbeat after some turns of the event loop. */
export const hastyClock: Clock = {
  now: () => Date.now() * 1_000,
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const onAbort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(
        () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
        ms >= 1_000 ? 30 : 0,
      );
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
};
