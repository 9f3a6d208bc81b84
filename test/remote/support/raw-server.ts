import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Answer } from "./foreign-behaviours.ts";

/** Serves the answers of a behaviour. */
export async function rawServer(answer: Answer) {
  const server = createServer(async (request, response) => {
    response.on("error", () => {});
    const { method = "", url: path = "" } = request;
    const sent = await text(request);
    const body = sent === "" ? {} : JSON.parse(sent);
    answer({ method, path, body, url }, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
