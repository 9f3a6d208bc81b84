import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A fault that the proxy puts into a stream after some of its events. */
export type Fault = "cut" | "half-close" | "stall" | "throttle" | "torn";

/** A fault and the number of events that pass before it. */
export interface Cut {
  readonly fault: Fault;
  readonly after: number;
}

/** A proxy that damages streams of events as planned and passes everything else. */
export interface CutProxy extends AsyncDisposable {
  readonly url: string;
  /** The faults of the next streams, in order; a stream without one passes whole. */
  plan: Cut[];
  /** How many streams were opened, and how many of them were damaged. */
  readonly count: { streams: number; faults: number };
}

export async function cutProxy(target: string): Promise<CutProxy> {
  const count = { streams: 0, faults: 0 };
  const proxy = { plan: [] as Cut[], count };
  const server = createServer((incoming, outgoing) => {
    const { method, headers, url } = incoming;
    const { port, hostname } = new URL(target);
    // Uncompressed, so that the proxy sees where events end.
    const own = { ...headers, "accept-encoding": "identity", host: `${hostname}:${port}` };
    const upstream = request({ hostname, port, method, path: url, headers: own });
    upstream.on("response", (response) => {
      const isStream = String(response.headers["content-type"]).startsWith("text/event-stream");
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      if (!isStream) return void response.pipe(outgoing);
      count.streams += 1;
      const cut = proxy.plan.shift();
      if (cut === undefined) return void response.pipe(outgoing);
      count.faults += 1;
      damage(response, outgoing, cut);
    });
    upstream.on("error", () => outgoing.destroy());
    outgoing.on("close", () => upstream.destroy());
    incoming.pipe(upstream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(proxy, {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  });
}

/** Passes frames up to the planned event, then does the damage. */
function damage(response: IncomingMessage, outgoing: ServerResponse, { fault, after }: Cut): void {
  let buffered = Buffer.alloc(0);
  let events = 0;
  let isDone = false;
  response.on("data", (chunk: Buffer) => {
    if (isDone) return;
    buffered = Buffer.concat([buffered, chunk]);
    for (let end = buffered.indexOf("\n\n"); end >= 0; end = buffered.indexOf("\n\n")) {
      const frame = buffered.subarray(0, end + 2);
      const isEvent = frame.includes("\nid: ") || frame.subarray(0, 4).toString() === "id: ";
      if (isEvent && events === after) {
        isDone = true;
        return finish(frame);
      }
      if (isEvent) events += 1;
      buffered = buffered.subarray(end + 2);
      if (fault === "throttle") for (const byte of chunksOf(frame)) outgoing.write(byte);
      else outgoing.write(frame);
    }
  });
  response.on("end", () => isDone || outgoing.end(buffered));

  function finish(frame: Buffer): void {
    switch (fault) {
      case "cut":
        return void outgoing.destroy();
      case "half-close":
        return void outgoing.end(); // a clean end without a terminal event
      case "torn":
        outgoing.write(frame.subarray(0, frame.length >> 1), () => outgoing.destroy());
        return;
      case "throttle":
        outgoing.write(frame.subarray(0, 7), () => outgoing.destroy());
        return;
      case "stall":
        return; // the connection stays open and silent
    }
  }
}

function* chunksOf(frame: Buffer): Generator<Buffer> {
  for (let at = 0; at < frame.length; at += 7) yield frame.subarray(at, at + 7);
}
