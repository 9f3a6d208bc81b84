import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { liveModel } from "./model.ts";
import { children, type Start } from "./side.ts";

/** A hand-written server: each part of the model becomes a frame. It keeps nothing and resumes nothing: the floor. */
export const start: Start = async ({ workload, tokens }) => {
  const model = liveModel({ kind: "text", ...(tokens !== undefined && { tokens }) });
  async function pump(response: ServerResponse, from?: string): Promise<void> {
    const { stream } = await model.doStream({ prompt: [] });
    for await (const part of stream) {
      response.write(`data: ${JSON.stringify(from ? { from, ...part } : part)}\n\n`);
    }
  }
  const server = createServer(async (request, response) => {
    for await (const _ of request);
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    response.flushHeaders();
    if (workload === "nested")
      await Promise.all(children.map((name) => pump(response, `lead/${name}`)));
    else await pump(response);
    response.end("data: [DONE]\n\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 8_192, resolve));
  const { port } = server.address() as AddressInfo;
  const frames = { mark: '"text-delta"', field: '"delta":"', stream: '"from":"' };
  return { port, path: "/", headers: {}, body: {}, ...frames };
};
