import { connect, createServer, type Socket } from "node:net";

/** What a proxy does with the answers of the server. */
export type Fate =
  /** Passes them on. */
  | "pass"
  /** Loses them and cuts the connection: the request was executed, and the client does not know. */
  | "lose"
  /** Keeps them back until the connection is given up. */
  | "hold";

/** A proxy between a client and a server. */
export interface TcpProxy {
  readonly port: number;
  /** How many answers were lost or kept back. */
  readonly lost: () => number;
  /** Decides what happens to each answer from now on. */
  decide(fate: () => Fate): void;
  /** Cuts all connections. */
  cut(): void;
  close(): Promise<void>;
}

/** Starts a proxy that passes everything on until it is told otherwise. */
export async function startProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  let decide: () => Fate = () => "pass";
  let lost = 0;
  const pairs = new Set<readonly [Socket, Socket]>();
  const server = createServer((client) => {
    const upstream = connect(target.port, target.host);
    const pair = [client, upstream] as const;
    pairs.add(pair);
    let isHeld = false;
    client.on("data", (bytes) => upstream.write(bytes));
    upstream.on("data", (bytes) => {
      if (isHeld) return;
      const fate = decide();
      if (fate === "pass") return void client.write(bytes);
      lost += 1;
      isHeld = true;
      if (fate === "lose") client.destroy();
    });
    for (const socket of pair) {
      socket.on("error", () => {});
      socket.on("close", () => {
        pairs.delete(pair);
        client.destroy();
        upstream.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    for (const [client, upstream] of pairs) {
      client.destroy();
      upstream.destroy();
    }
  };
  return {
    port: (server.address() as { port: number }).port,
    lost: () => lost,
    decide(fate) {
      decide = fate;
    },
    cut,
    async close() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
