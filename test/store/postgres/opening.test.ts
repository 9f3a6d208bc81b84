import { inspect } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RivuletError } from "../../../src/base/error.ts";
import { freePort } from "../../../src/cli/embedded-postgres.ts";
import { type PostgresStoreOptions, postgresStore } from "../../../src/postgres.ts";
import { migrateTables, openStore } from "../../../src/store/open.ts";
import { migrationSql } from "../../../src/store/postgres/migrate.ts";
import { commitOnce, deltas } from "../../../src/testing/store-contract/samples.ts";
import {
  hasPostgres,
  login,
  type PostgresServer,
  startPostgres,
} from "../../support/postgres-server.ts";
import { newSchema } from "./create-postgres-store.ts";

/** The error of the first call of a store; fails if a program that prints it would print the password. */
async function openingError(options: string | PostgresStoreOptions): Promise<RivuletError> {
  const open = async () => {
    const store = postgresStore(options);
    await store.last("task_1").finally(() => store.close());
  };
  const error = await open().then(
    () => undefined,
    (error: unknown) => error,
  );
  const printed = inspect(error, { depth: 10, showHidden: true });
  for (const password of [login.password, encodeURIComponent(login.password), "wrong"])
    expect(printed).not.toContain(password);
  return error as RivuletError;
}

describe.skipIf(!hasPostgres())("opening a store on PostgreSQL", () => {
  let server: PostgresServer;
  let admin: pg.Client;
  beforeAll(async () => {
    server = await startPostgres();
    admin = new pg.Client(server.url);
    await admin.connect();
  }, 60_000);
  afterAll(async () => {
    await admin.end();
    await server.remove();
  });
  const withUrl = (change: (url: URL) => void) => {
    const url = new URL(server.url);
    change(url);
    return url.href;
  };

  it("creates the tables with the first call, and opens them again", async () => {
    const schema = newSchema();
    for (const last of [2, 5]) {
      const store = postgresStore({ url: server.url, schema });
      await commitOnce(store, { events: deltas(3) });
      expect(await store.last("task_1")).toBe(last);
      await store.close();
    }
  });

  it("creates the tables once when eight processes open them at once", async () => {
    const schema = newSchema();
    const stores = Array.from({ length: 8 }, () => postgresStore({ url: server.url, schema }));
    expect(await Promise.all(stores.map((store) => store.last("task_1")))).toEqual(
      Array(8).fill(-1),
    );
    await Promise.all(stores.map((store) => store.close()));
    const { rows } = await admin.query(`SELECT version FROM ${schema}.meta`);
    expect(rows).toEqual([{ version: 2 }]);
  });

  it("adds what is missing to tables of an earlier version, which processes with it still use", async () => {
    const schema = newSchema();
    await admin.query(`CREATE SCHEMA ${schema}; ${migrationSql(schema, 0, 1)}`);
    await admin.query(`INSERT INTO ${schema}.conversations (conv, work) VALUES ('sess_1', true)`);
    const store = postgresStore({ url: server.url, schema });
    const claimed = await store.claim?.("new", 10_000, 10, { agents: [], maxPerUser: 1 });
    expect(claimed?.map(({ sessionId }) => sessionId)).toEqual(["sess_1"]);
    const old = await admin.query(
      `SELECT * FROM ${schema}.claim_1('old', 10000, 10, 9, '{""}', '{""}', '{""}', 1, NULL)`,
    );
    expect(old.rows).toEqual([]);
    expect(await store.nodes?.()).toEqual([]);
    await store.close();
    const { rows } = await admin.query(`SELECT version FROM ${schema}.meta`);
    expect(rows).toEqual([{ version: 2 }]);
  });

  it("prints the statements of a migration for another role, and makes them", async () => {
    const [printed, made] = [newSchema(), newSchema()];
    const { url } = server;
    const plan = await migrateTables({ url, schema: printed }, { apply: false });
    expect(plan).toMatchObject({ from: 0, to: 2 });
    await admin.query(plan.sql);
    expect(await migrateTables({ url, schema: made }, { apply: true })).toMatchObject({ from: 0 });
    for (const schema of [printed, made]) {
      expect(await migrateTables({ url, schema }, { apply: false })).toMatchObject({
        ...{ from: 2, sql: "" },
      });
      const store = postgresStore({ url, schema, migrate: false });
      await commitOnce(store, { events: deltas(1) });
      await store.close();
    }
    await admin.query(`UPDATE ${made}.meta SET version = 99`);
    await expect(migrateTables({ url, schema: made }, { apply: true })).rejects.toMatchObject({
      code: "store_too_new",
    });
  });

  it("opens by its URL, and shares the store with others that name it", async () => {
    const store = openStore(server.url);
    expect(openStore(server.url)).toBe(store);
    const woken = new Promise<void>((resolve) => {
      store.watch({ log: "task_1" }, () => resolve());
    });
    await commitOnce(store, { events: deltas(1) });
    await woken;
    await store.close();
    expect(openStore(server.url)).not.toBe(store);
    await openStore(server.url).close();
  });

  it("takes the password from a function", async () => {
    const url = withUrl((url) => {
      url.password = "";
    });
    const store = postgresStore({ url, schema: newSchema(), password: async () => login.password });
    expect(await store.last("task_1")).toBe(-1);
    await store.close();
  });

  it("rejects a wrong password", async () => {
    const url = withUrl((url) => {
      url.password = "wrong";
    });
    expect(await openingError(url)).toMatchObject({
      code: "store_failed",
      message: expect.stringMatching(/^The store at 127\.0\.0\.1:\d+\/postgres cannot be opened: /),
      hint: "Check the user and the password of the URL.",
      retryable: false,
    });
  });

  it("rejects a database that does not exist", async () => {
    const url = withUrl((url) => {
      url.pathname = "/nowhere";
    });
    expect(await openingError(url)).toMatchObject({
      code: "store_failed",
      hint: "Create the database, or name another one in the URL.",
    });
  });

  it("waits a moment for a server that is not there, and names the address", async () => {
    const port = await freePort();
    const url = withUrl((url) => {
      url.port = String(port);
    });
    expect(await openingError({ url, patienceMs: 300 })).toMatchObject({
      code: "store_failed",
      message: expect.stringContaining(`127.0.0.1:${port}/postgres`),
      hint: "Start PostgreSQL, or correct the host and the port of the URL.",
      retryable: true,
    });
  });

  it.each(["mysql://a:wrong@b/c", "postgres://a:wrong@b:99999/c", "wrong"])(
    "rejects the URL %j without printing it",
    async (url) => {
      expect(await openingError(url)).toMatchObject({
        code: "invalid_settings",
        message: "The URL of the database is not valid.",
      });
    },
  );

  it("does not print the password of a mistyped name of a store", () => {
    expect(() => openStore("postgre://ann:wrong@host/db")).toThrow(
      'Unknown store "postgre://***@host/db".',
    );
  });

  it("refuses a schema of another program, and tables of a newer version", async () => {
    const schema = newSchema();
    await admin.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.orders (id int)`);
    const { url } = server;
    expect(await openingError({ url, schema })).toMatchObject({ code: "not_a_store" });
    await admin.query(`CREATE TABLE ${schema}.meta (version int)`);
    expect(await openingError({ url, schema })).toMatchObject({ code: "not_a_store" });
    await admin.query(`INSERT INTO ${schema}.meta VALUES (999)`);
    expect(await openingError({ url, schema })).toMatchObject({ code: "store_too_new" });
  });

  it("creates nothing with `migrate: false`", async () => {
    const schema = newSchema();
    const { url } = server;
    expect(await openingError({ url, schema, migrate: false })).toMatchObject({
      code: "store_too_old",
    });
    await postgresStore({ url, schema }).last("task_1");
    const store = postgresStore({ url, schema, migrate: false });
    expect(await store.last("task_1")).toBe(-1);
    await store.close();
  });

  it("works for a role without rights to create tables, and says so when it needs them", async () => {
    const schema = newSchema();
    const owner = postgresStore({ url: server.url, schema });
    await owner.last("task_1");
    await owner.close();
    await admin.query(`CREATE ROLE plain LOGIN PASSWORD 'plain';
      GRANT USAGE ON SCHEMA ${schema} TO plain;
      GRANT ALL ON ALL TABLES IN SCHEMA ${schema} TO plain;
      GRANT ALL ON ALL SEQUENCES IN SCHEMA ${schema} TO plain`);
    const url = withUrl((url) => {
      [url.username, url.password] = ["plain", "plain"];
    });
    const store = postgresStore({ url, schema });
    await commitOnce(store, { events: deltas(2) });
    expect(await store.last("task_1")).toBe(1);
    await store.close();
    expect(await openingError({ url, schema: newSchema() })).toMatchObject({
      code: "store_failed",
      hint: expect.stringContaining("Give the role the right to create the schema"),
    });
  });

  it("refuses a database with another encoding", async () => {
    await admin.query("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    const url = withUrl((url) => {
      url.pathname = "/latin";
    });
    expect(await openingError(url)).toMatchObject({
      code: "store_failed",
      message: expect.stringContaining("LATIN1"),
    });
  });

  it.each(["default_transaction_read_only = on", "synchronous_commit = off"])(
    "refuses a database with %s",
    async (setting) => {
      const name = newSchema();
      await admin.query(`CREATE DATABASE ${name}`);
      await admin.query(`ALTER DATABASE ${name} SET ${setting}`);
      const url = withUrl((url) => {
        url.pathname = `/${name}`;
      });
      const isUnsafe = setting.startsWith("synchronous");
      expect(await openingError({ url, patienceMs: 0 })).toMatchObject({
        code: isUnsafe ? "unsafe_store" : "store_failed",
      });
      if (!isUnsafe) return;
      const store = postgresStore({ url, unsafe: true });
      expect(await store.last("task_1")).toBe(-1);
      await store.close();
    },
  );

  it("refuses a server that does not wait for its disk", async () => {
    const careless = await startPostgres({ fsync: "off" });
    try {
      expect(await openingError(careless.url)).toMatchObject({
        code: "unsafe_store",
        message: expect.stringContaining("fsync is off"),
      });
    } finally {
      await careless.remove();
    }
  });

  it("rejects ids that PostgreSQL cannot store, before it sends anything", async () => {
    const store = postgresStore({ url: server.url, schema: newSchema() });
    for (const id of ["a\0b", "half \ud83d"]) {
      await expect(store.task(id)).rejects.toMatchObject({ code: "invalid_argument" });
      await expect(store.acquire(id, "a", 1)).rejects.toMatchObject({ code: "invalid_argument" });
      await expect(store.files.put(id, new Uint8Array())).rejects.toMatchObject({
        code: "invalid_argument",
      });
    }
    await store.close();
  });
});
