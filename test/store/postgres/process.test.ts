import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasPostgres, type PostgresServer, startPostgres } from "../../support/postgres-server.ts";

const folder = mkdtempSync(join(tmpdir(), "rivulet-process-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a program that imports from the sources; returns what it prints. */
function run(program: string, ...options: readonly string[]): string {
  const file = join(folder, "program.ts");
  writeFileSync(file, program);
  const { stdout, stderr } = spawnSync(process.execPath, [...options, file], {
    encoding: "utf8",
    timeout: 60_000,
  });
  return stdout + stderr;
}

const source = (path: string) => JSON.stringify(resolve("src", path));

it("names the command that installs `pg` when it is missing", () => {
  const hooks = join(folder, "without-pg.mjs");
  writeFileSync(
    hooks,
    `import { registerHooks } from "node:module";
    registerHooks({ resolve(name, context, next) {
      if (name !== "pg") return next(name, context);
      const error = new Error("Cannot find package 'pg' imported from " + context.parentURL);
      throw Object.assign(error, { code: "ERR_MODULE_NOT_FOUND" });
    } });`,
  );
  const printed = run(
    `import { openStore } from ${source("store/open.ts")};
    const store = openStore("postgres://ann:secret@localhost:1/db");
    await store.last("task_1").catch(({ code, message, hint }) => console.log(code, message, hint));
    await store.close();`,
    "--import",
    hooks,
  );
  expect(printed).toBe(
    "postgres_not_installed The package pg is not installed. Run `npm i pg@8`.\n",
  );
});

it("loads neither the client nor the code of the store before a URL is opened", () => {
  const printed = run(
    `import { registerHooks } from "node:module";
    registerHooks({ load(url, context, next) {
      if (/store\\/postgres|node_modules\\/pg/.test(url)) console.log(url);
      return next(url, context);
    } });
    const { openStore } = await import(${source("store/open.ts")});
    await import(${source("index.ts")});
    openStore("memory");
    console.log("done");`,
  );
  expect(printed).toBe("done\n");
});

describe.skipIf(!hasPostgres())("a process with a store on PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(() => server.remove());

  it("ends when nothing is left to do, although it has not closed the store", () => {
    const started = performance.now();
    const printed = run(
      `import { ReActAgent } from ${source("index.ts")};
      import { scriptedModel } from ${source("testing.ts")};
      const store = ${JSON.stringify(server.url)};
      const agent = new ReActAgent({ name: "a", store, model: scriptedModel(["Hello."]) });
      console.log((await agent.call("Hi.")).text);`,
    );
    expect(printed).toBe("Hello.\n");
    expect(performance.now() - started).toBeLessThan(30_000);
  });
});
