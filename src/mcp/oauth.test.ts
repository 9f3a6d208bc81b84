import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { connectMcp, type McpServer } from "./index.ts";
import { openLogin } from "./oauth.ts";

const folder = mkdtempSync(join(tmpdir(), "rivulet-oauth-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const path = join(folder, "kept/tokens.json");
const issuer = { issuer: "https://login.example" };
const server = { name: "tracker", url: "https://tracker.example/mcp" };
const options = { redirectUrl: "http://localhost:1/", authorize: () => "", tokens: path };
const tokens = { access_token: "secret-token", token_type: "Bearer" };

it("keeps tokens by server and authorization server in a file that only its user can read", async () => {
  const one = openLogin(server, options).provider;
  const other = openLogin({ ...server, url: "https://other.example/" }, options).provider;
  await Promise.all([
    one.saveTokens({ ...tokens, access_token: "first" }, issuer),
    other.saveTokens(tokens, issuer),
    one.saveClientInformation?.({ client_id: "me" }, issuer),
  ]);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const again = openLogin(server, options).provider;
  expect(await again.tokens()).toMatchObject({ access_token: "first" });
  expect(await again.tokens({ issuer: "https://elsewhere.example" })).toBeUndefined();
  expect(await again.clientInformation(issuer)).toEqual({ client_id: "me" });
  expect(await other.tokens(issuer)).toEqual(tokens);
  await again.invalidateCredentials?.("tokens");
  expect(await again.tokens()).toBeUndefined();
  expect(await other.tokens()).toEqual(tokens);
});

it("gives a file that others could read the mode 0600 with the next token", async () => {
  const login = openLogin(server, options);
  await login.provider.saveTokens(tokens, issuer);
  writeFileSync(path, readFileSync(path), { mode: 0o644 });
  await login.provider.saveTokens(tokens, issuer);
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

it.each(["http://localhost:1/?code=c&state=other", "http://localhost:1/?code=c", "", "cancelled"])(
  "refuses a login whose state is not ours: %j",
  async (back) => {
    const { provider, redeem } = openLogin(server, { ...options, authorize: () => back });
    await provider.state?.();
    const redirect = async () => provider.redirectToAuthorization(new URL("https://x.example"));
    await expect(redirect()).rejects.toMatchObject({ code: "mcp_unauthorized" });
    await expect(redeem(async () => {})).rejects.toMatchObject({ code: "mcp_unauthorized" });
  },
);

it("names no secret when a server refuses the login", async () => {
  const listener = createServer((_, response) => void response.writeHead(401).end("secret-token"));
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as AddressInfo;
  const given: McpServer = {
    ...{ name: "tracker", url: `http://127.0.0.1:${port}/mcp` },
    oauth: { ...options, clientId: "me", clientSecret: "a-secret-of-the-client" },
  };
  const error = await connectMcp(given).catch((reason: unknown) => reason);
  listener.close();
  expect(error).toMatchObject({ message: expect.stringContaining("tracker") });
  expect(JSON.stringify(error) + String(error)).not.toMatch(/a-secret-of-the-client/);
});
