import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";
import { client } from "../server/support/server.ts";
import { rivulet, scriptedTeam, serving } from "./support/program.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-token-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const token = (cwd: string, ...args: readonly string[]) =>
  rivulet(["token", ...args, ...scriptedTeam], { cwd });

it("creates, lists and revokes tokens of a server that runs", async () => {
  const server = await serving(directory, scriptedTeam);
  const cwd = server.cwd;
  const made = await token(cwd, "create", "--scope", "read", "--expires", "30d", "--name", "page");
  expect(made).toMatchObject({ code: 0 });
  const secret = made.output.trim();
  expect(secret).toMatch(/^rvl_[\w-]{43}$/);
  const id = /rivulet token revoke (\w+)/.exec(made.errors)?.[1] ?? "";
  const status = async () => (await client(server.url, secret).get("/v1/agents")).status;
  expect(await status()).toBe(200);
  const listed = await token(cwd, "list");
  expect(listed.output).toMatch(new RegExp(`^${id}  -  +read +created .* expires .* page\\n$`));
  expect(listed.output).not.toContain(secret);
  expect(JSON.parse((await token(cwd, "list", "--json")).output)).toMatchObject({
    ...{ id, name: "page", scopes: ["read"] },
  });
  expect(await token(cwd, "revoke", id)).toMatchObject({
    ...{ code: 0, errors: `The token ${id} is revoked.\n` },
  });
  expect(await status()).toBe(401);
  expect(await token(cwd, "revoke", id)).toMatchObject({ code: 2 });
});

it.each([
  [["creat"], "rivulet token create, rivulet token list"],
  [["revoke"], "needs an id"],
  [["create", "--scope", "admin"], "--scope must be"],
  [["create", "--expires", "soon"], "--expires must be"],
])("refuses %j", async (args, message) => {
  const { code, errors } = await token(mkdtempSync(join(directory, "f")), ...args);
  expect(code).toBe(2);
  expect(errors).toContain(message);
});

it("needs a user where the config has auth", async () => {
  const cwd = mkdtempSync(join(directory, "f"));
  const config = join(cwd, "auth.ts");
  const team = JSON.stringify(resolve("test/cli/support/config.ts"));
  const auth = '{ tokens: { "0123456789abcdef": { userId: "ann" } } }';
  writeFileSync(config, `import team from ${team}; export default { ...team, auth: ${auth} };`);
  const create = (...args: readonly string[]) =>
    rivulet(["token", "create", "--config", config, ...args], { cwd });
  expect(await create()).toMatchObject({ code: 2, errors: expect.stringContaining("--user") });
  expect(await create("--user", "ann")).toMatchObject({ code: 0 });
});
