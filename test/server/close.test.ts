import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, it } from "vitest";
import { memoryStore, type Store } from "../../src/index.ts";
import { scripted, startServer, tokens } from "./support/server.ts";

/** A connection that the client never closes, and what it has received. */
async function connection(url: string, sent: string) {
  const socket: Socket = connect({
    ...{ port: Number(new URL(url).port), host: "127.0.0.1", allowHalfOpen: true },
  });
  await once(socket, "connect");
  let received = "";
  socket.on("data", (chunk: Buffer) => (received += chunk));
  socket.on("error", () => {});
  const ended = new Promise<void>((resolve) => socket.once("end", resolve).once("close", resolve));
  socket.write(sent);
  return { socket, ended, received: () => received };
}

const get = (path: string) =>
  [`GET ${path} HTTP/1.1`, "host: localhost", `authorization: Bearer ${tokens.ann}`, "", ""].join(
    "\r\n",
  );

it("closes every connection at once, or after the response that it waits for", async () => {
  const gate = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const inner = memoryStore();
  const store: Store = {
    ...inner,
    async task(id) {
      if (id === "task_slow") {
        asked.resolve();
        await gate.promise;
      }
      return inner.task(id);
    },
  };
  const { agent } = scripted([], { store });
  // Far beyond the time limit of a test.
  const server = await startServer({ agents: [agent], shutdownMs: 3_600_000 });
  const silent = await connection(server.url, "");
  const half = await connection(server.url, "GET /healthz HTTP/1.1\r\nhost: loc");
  const idle = await connection(server.url, get("/v1/agents"));
  const slow = await connection(server.url, get("/v1/tasks/task_slow"));
  await once(idle.socket, "data");
  await asked.promise;
  const closed = server.close();
  await Promise.all([silent.ended, half.ended, idle.ended]);
  expect(slow.received()).toBe("");
  gate.resolve();
  await closed;
  await slow.ended;
  expect(slow.received()).toMatch(/^HTTP\/1\.1 404 /);
  for (const { socket } of [silent, half, idle, slow]) socket.destroy();
});
