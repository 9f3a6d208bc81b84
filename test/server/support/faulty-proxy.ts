import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** How a connection is damaged: after so many events, and so many bytes into the next one. */
export interface Fault {
  readonly kind: "cut" | "half-close" | "stall" | "reset" | "throttle";
  readonly events: number;
  readonly bytes: number;
}

/** A TCP proxy that damages each connection by the next fault of a list; without a fault it passes everything on. */
export async function faultyProxy(url: string, faults: Iterator<Fault | undefined>) {
  const sockets = new Set<Socket>();
  const upstreamPort = Number(new URL(url).port);
  const server = createServer((client) => {
    const upstream = connect(upstreamPort, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    const fault = faults.next().value;
    if (fault === undefined) upstream.pipe(client);
    else damage(upstream, client, fault);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Passes bytes on up to the place of the fault. */
function damage(upstream: Socket, client: Socket, { kind, events, bytes }: Fault): void {
  let passed = "";
  upstream.on("data", (chunk: Buffer) => {
    if (kind === "throttle") {
      upstream.pause();
      client.write(chunk.subarray(0, 700));
      if (chunk.length > 700) upstream.unshift(chunk.subarray(700));
      setTimeout(() => upstream.resume(), 1);
      return;
    }
    const before = passed.length;
    passed += chunk.toString("latin1");
    const end = placeOf(passed, events) + bytes;
    if (passed.length < end) {
      client.write(chunk);
      return;
    }
    client.write(chunk.subarray(0, Math.max(0, end - before)));
    upstream.removeAllListeners("data");
    upstream.pause();
    if (kind === "cut") client.end(() => client.destroy());
    else if (kind === "half-close") client.end();
    else if (kind === "reset") client.resetAndDestroy();
  });
  upstream.on("end", () => client.end());
}

/** Where the n-th event of a response ends. */
function placeOf(response: string, events: number): number {
  let at = response.indexOf("event: stream.opened");
  for (let n = -1; n < events && at >= 0; n++) at = response.indexOf("\n\n", at + 2);
  return at < 0 ? Number.POSITIVE_INFINITY : at + 2;
}
