import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { isPrivateAddress, remoteFetch } from "./remote-fetch.ts";

const agent = { name: "a", description: "Does it." };

async function listen(handle: RequestListener) {
  const server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A resolver whose answers come from a list. */
function resolver(...answers: readonly (readonly string[])[]) {
  let next = 0;
  const resolve = (_: string, __: object, done: (error: null, all: object[]) => void) => {
    const addresses = answers[Math.min(next++, answers.length - 1)] ?? [];
    done(
      null,
      addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
    );
  };
  return resolve as unknown as NonNullable<Parameters<typeof remoteFetch>[2]>;
}

describe("isPrivateAddress", () => {
  const refused = [
    ...["0.0.0.0", "10.1.2.3", "100.100.100.200", "127.0.0.1", "127.255.255.254"],
    ...["169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.168.1.1"],
    ...["198.18.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1"],
    ...["::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b:1::1"],
    ...[
      "fe80::1",
      "fc00::1",
      "fd00:ec2::254",
      "ff02::1",
      "2001::1",
      "2001:db8::1",
      "2002:7f00:1::",
    ],
  ];
  it.each(refused)("refuses %s", (address) => expect(isPrivateAddress(address)).toBe(true));

  const allowed = ["8.8.8.8", "100.63.255.255", "172.32.0.1", "192.167.0.1", "2606:4700::1111"];
  it.each(allowed)("allows %s", (address) => expect(isPrivateAddress(address)).toBe(false));
});

describe("remoteFetch", () => {
  const hosts = [
    ...["127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1"],
    ...["0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]"],
  ];
  it.each(hosts)("opens no connection to %s", async (host) => {
    let requests = 0;
    await using server = await listen((_, response) => {
      requests += 1;
      response.end();
    });
    const url = `http://${host}:${server.port}`;
    const fetch = remoteFetch({ ...agent, url });
    await expect(fetch(`${url}/v1/tasks`)).rejects.toMatchObject({ code: "address_refused" });
    expect(requests).toBe(0);
  });

  it("checks every address of a name, for each connection", async () => {
    const url = "http://agent.example:9";
    const one = remoteFetch({ ...agent, url }, {}, resolver(["8.8.8.8", "10.0.0.1"]));
    await expect(one(url)).rejects.toMatchObject({ code: "address_refused" });
    const rebound = remoteFetch({ ...agent, url }, {}, resolver(["127.0.0.1"]));
    await expect(rebound(url)).rejects.toMatchObject({ code: "address_refused" });
  });

  it("connects to the address that it has checked, whatever a second lookup would say", async () => {
    await using server = await listen((_, response) => response.end("here"));
    const url = `http://agent.example:${server.port}`;
    const resolve = resolver(["127.0.0.1"], ["203.0.113.1"]);
    const fetch = remoteFetch({ ...agent, url, allowPrivateNetwork: true }, {}, resolve);
    expect(await (await fetch(url)).text()).toBe("here");
  });

  it("sends the headers of the declaration to its origin alone", async () => {
    const seen: (string | undefined)[] = [];
    await using server = await listen(({ headers }, response) => {
      seen.push(headers.authorization);
      response.end();
    });
    const headers = { authorization: "Bearer secret" };
    const fetch = remoteFetch({ ...agent, url: server.url, headers, allowPrivateNetwork: true });
    await (await fetch(`${server.url}/one`)).text();
    expect(seen).toEqual(["Bearer secret"]);
    const other = `http://localhost:${server.port}/two`;
    await expect(fetch(other)).rejects.toMatchObject({ code: "other_origin" });
    expect(seen.length).toBe(1);
  });

  it("returns a redirect and does not follow it", async () => {
    let requests = 0;
    await using server = await listen((_, response) => {
      requests += 1;
      response.writeHead(307, { location: "http://169.254.169.254/latest/" }).end();
    });
    const fetch = remoteFetch({ ...agent, url: server.url, allowPrivateNetwork: true });
    expect((await fetch(server.url, { method: "POST", body: "{}" })).status).toBe(307);
    expect(requests).toBe(1);
  });

  it("limits what a compressed response expands to, and refuses other encodings", async () => {
    const sent = { "/small": Buffer.from("here"), "/bomb": Buffer.alloc(100_000_000) };
    await using server = await listen(({ url = "" }, response) => {
      const isOther = url === "/other";
      response.writeHead(200, { "content-encoding": isOther ? "br" : "gzip" });
      response.end(isOther ? "" : gzipSync(sent[url as keyof typeof sent]));
    });
    const fetch = remoteFetch({ ...agent, url: server.url, allowPrivateNetwork: true });
    expect(await (await fetch(`${server.url}/small`)).text()).toBe("here");
    const bomb = await fetch(`${server.url}/bomb`);
    await expect(bomb.text()).rejects.toMatchObject({ code: "invalid_response" });
    const other = fetch(`${server.url}/other`);
    await expect(other).rejects.toMatchObject({ code: "invalid_response" });
  });

  it("ends a stream of events that sends more than 1 MiB of blank lines", async () => {
    const chunk = Buffer.alloc(65_536, "\n");
    await using server = await listen((_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const write = () => {
        while (!response.destroyed) if (!response.write(chunk)) break;
      };
      response.on("drain", write);
      write();
    });
    const fetch = remoteFetch({ ...agent, url: server.url, allowPrivateNetwork: true });
    const { body } = await fetch(server.url);
    let bytes = 0;
    const read = async () => {
      for await (const part of body as unknown as AsyncIterable<Uint8Array>) bytes += part.length;
    };
    await expect(read()).rejects.toMatchObject({ code: "disconnected", retryable: true });
    expect(bytes).toBeLessThanOrEqual(1024 * 1024 + chunk.length);
  });

  it.each(["identity", "gzip"])(
    "hands out at most two chunks in a turn of the event loop, %s",
    async (encoding) => {
      const sent = Buffer.alloc(20_000_000, "x");
      await using server = await listen((_, response) => {
        const headers = { "content-type": "text/event-stream", "content-encoding": encoding };
        response.writeHead(200, headers).end(encoding === "gzip" ? gzipSync(sent) : sent);
      });
      const fetch = remoteFetch({ ...agent, url: server.url, allowPrivateNetwork: true });
      const { body } = await fetch(server.url);
      let bytes = 0;
      const turns = [0];
      const count = () => void turns.push(0);
      for await (const part of body as unknown as AsyncIterable<Uint8Array>) {
        if (turns.at(-1) === 0) setImmediate(count);
        turns[turns.length - 1] = (turns.at(-1) ?? 0) + part.length;
        bytes += part.length;
      }
      expect(bytes).toBe(sent.length);
      expect(Math.max(...turns)).toBeLessThanOrEqual(2 * 65_536);
    },
  );

  it("limits a response to 8 MiB, but not a stream of events", async () => {
    const chunk = Buffer.alloc(1024 * 1024, " ");
    await using server = await listen(({ url }, response) => {
      const type = url === "/stream" ? "text/event-stream" : "application/json";
      response.writeHead(200, { "content-type": type });
      for (let n = 0; n < 9; n++) response.write(chunk);
      response.end();
    });
    const fetch = remoteFetch({ ...agent, url: server.url, allowPrivateNetwork: true });
    const stream = await fetch(`${server.url}/stream`);
    expect((await stream.arrayBuffer()).byteLength).toBe(9 * chunk.length);
    const body = await fetch(`${server.url}/body`);
    await expect(body.text()).rejects.toMatchObject({ code: "invalid_response" });
  });
});
