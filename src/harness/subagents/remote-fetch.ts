import { lookup } from "node:dns";
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { BlockList, isIP, isIPv4, type LookupFunction } from "node:net";
import { setImmediate } from "node:timers/promises";
import { constants, createGunzip } from "node:zlib";
import { RivuletError } from "../../base/error.ts";
import { headerSecrets } from "../../base/secrets.ts";
import type { RemoteSubagent, RemoteUser } from "./declaration.ts";
import { StreamPadding } from "./stream-padding.ts";

/** The most bytes of a response that is not a stream of events, and how long such a response may take. */
const maxBodyBytes = 8 * 1024 * 1024;
const responseMs = 30_000;
const connectMs = 10_000;

const privateAddresses = listOf("ipv4", [
  ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"],
  ...["172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"],
  ...["198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"],
]);
const globalAddresses = listOf("ipv6", ["2000::/3"]);
/** Parts of it that are not global, or that lead to an IPv4 address: Teredo and others, documentation, 6to4. */
const specialAddresses = listOf("ipv6", ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]);

function listOf(family: "ipv4" | "ipv6", networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** Whether an address is private, loopback, link-local or otherwise not on the public internet. */
export function isPrivateAddress(address: string): boolean {
  if (isIPv4(address)) return privateAddresses.check(address, "ipv4");
  return !globalAddresses.check(address, "ipv6") || specialAddresses.check(address, "ipv6");
}

// A connection that is kept goes to the address that was checked when it was opened.
const agents = [false, true].map((allowsPrivate) => ({
  allowsPrivate,
  http: new HttpAgent({ keepAlive: true }),
  https: new HttpsAgent({ keepAlive: true }),
}));

/**
 * Returns a `fetch` for the server of a declaration. It sends the headers of the declaration to that origin alone, checks
 * the address that it connects to, follows no redirect and limits what a response may cost. `onSecrets` gets the values
 * of the headers before they are sent.
 */
export function remoteFetch(
  declaration: RemoteSubagent,
  user: RemoteUser = {},
  resolve: typeof lookup = lookup,
  onSecrets: (secrets: readonly string[]) => void = () => {},
): typeof fetch {
  const { headers: given = {}, allowPrivateNetwork = false } = declaration;
  const { origin } = new URL(declaration.url ?? declaration.a2a);
  const agent = agents.find(({ allowsPrivate }) => allowsPrivate === allowPrivateNetwork);
  const check = allowPrivateNetwork ? () => {} : refusePrivate;
  const checkedLookup = ((host, options, done) => {
    resolve(host, { ...options, all: true }, (error, addresses) => {
      try {
        if (error) throw error;
        for (const { address } of addresses) check(host, address);
        const [first] = addresses;
        if (options.all) done(null, addresses);
        else done(null, first?.address ?? "", first?.family);
      } catch (problem) {
        done(problem as Error, "", 0);
      }
    });
  }) as LookupFunction;

  return async (input, init = {}) => {
    const target = new URL(input instanceof Request ? input.url : input);
    if (target.origin !== origin) throw otherOrigin(origin, target.origin);
    const host = target.hostname.replace(/^\[|\]$/g, "");
    if (isIP(host)) check(host, host); // no lookup follows
    const own = typeof given === "function" ? await given(user) : given;
    onSecrets(headerSecrets(own));
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(own)) headers.set(name, value);
    headers.set("accept-encoding", "gzip");
    const { promise, resolve: answer, reject } = Promise.withResolvers<Response>();
    const isSecure = target.protocol === "https:";
    const request = (isSecure ? httpsRequest : httpRequest)(target, {
      method: init.method ?? "GET",
      headers: Object.fromEntries(headers),
      agent: isSecure ? agent?.https : agent?.http,
      lookup: checkedLookup,
      timeout: connectMs,
      ...(init.signal && { signal: init.signal }),
    });
    request.once("timeout", () => {
      // The same timer would end a silent stream.
      if (request.socket?.connecting) request.destroy(new Error("the connection took too long"));
    });
    request.once("error", reject);
    request.once("response", (response) => {
      try {
        answer(responseOf(response));
      } catch (error) {
        response.destroy();
        reject(error);
      }
    });
    request.end(typeof init.body === "string" ? init.body : undefined);
    return promise;
  };
}

function responseOf(incoming: IncomingMessage): Response {
  const { statusCode: status = 0, headers } = incoming;
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding !== "identity" && encoding !== "gzip")
    throw invalidResponse(`a response is encoded with ${encoding}`);
  const isStream = headers["content-type"]?.startsWith("text/event-stream") === true;
  const isEmpty = status === 204 || status === 304;
  if (isEmpty) incoming.resume();
  const body = isEmpty ? null : bodyOf(incoming, encoding === "gzip", isStream);
  const flat = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return new Response(body, { status, headers: flat as [string, string][] });
}

/** The bytes of a response, uncompressed as they are read, so that memory and turns do not depend on their number. */
function bodyOf(
  incoming: IncomingMessage,
  isCompressed: boolean,
  isStream: boolean,
): ReadableStream<Uint8Array> {
  const options = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
  const source = isCompressed ? incoming.pipe(createGunzip(options)) : incoming;
  const tooSlow = () => incoming.destroy(new Error(`a response took more than ${responseMs} ms`));
  const timer = isStream ? undefined : setTimeout(tooSlow, responseMs);
  const check = isStream ? paddingCheck() : sizeCheck();
  let isLeft = false;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const fail = (error: unknown) => {
          clearTimeout(timer);
          incoming.destroy();
          if (isLeft) return;
          isLeft = true;
          controller.error(error);
        };
        source.on("data", (chunk: Buffer) => {
          if (isLeft) return;
          try {
            check(chunk);
          } catch (error) {
            fail(error);
            return;
          }
          controller.enqueue(chunk);
          source.pause();
        });
        source.once("end", () => {
          clearTimeout(timer);
          if (!isLeft) controller.close();
          isLeft = true;
        });
        incoming.once("close", () => {
          if (!incoming.complete) fail(new Error("the connection was closed"));
        });
        for (const stream of [incoming, source]) stream.on("error", fail);
      },
      // One chunk in each turn of the event loop: Node reads up to 32 of them from a socket in one turn.
      async pull() {
        await setImmediate();
        source.resume();
      },
      cancel() {
        isLeft = true;
        clearTimeout(timer);
        incoming.destroy();
      },
    },
    { highWaterMark: 1 },
  );
}

function paddingCheck(): (chunk: Buffer) => void {
  const padding = new StreamPadding(() => performance.now());
  return (chunk) => padding.count(chunk);
}

function sizeCheck(): (chunk: Buffer) => void {
  let bytes = 0;
  return ({ length }) => {
    bytes += length;
    if (bytes > maxBodyBytes)
      throw invalidResponse(`a response has more than ${maxBodyBytes} bytes`);
  };
}

function refusePrivate(host: string, address: string): void {
  if (!isPrivateAddress(address)) return;
  const message = `${host} has the address ${address}, which is not on the public internet.`;
  throw new RivuletError("address_refused", message, {
    hint: "Set allowPrivateNetwork: true in the declaration if the server is meant to be there.",
  });
}

function otherOrigin(expected: string, actual: string): RivuletError {
  return new RivuletError("other_origin", `A request for ${expected} would go to ${actual}.`);
}

function invalidResponse(problem: string): RivuletError {
  return new RivuletError("invalid_response", `The server may not answer like this: ${problem}.`);
}
