import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RivuletError } from "../../../src/base/error.ts";
import { postgresStore } from "../../../src/postgres.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { commitOnce, deltas } from "../../../src/testing/store-contract/samples.ts";
import { storeContract } from "../../../src/testing.ts";
import { registerContract } from "../../support/contract.ts";
import { type Pgbouncer, startPgbouncer } from "../../support/pgbouncer.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { requires } from "../../support/requires.ts";
import { createPostgresStore, newSchema } from "./create-postgres-store.ts";

describe.skipIf(!requires("pgbouncer") || !hasPostgres())("through PgBouncer", () => {
  let server: PostgresServer;
  let pooler: Pgbouncer;
  beforeAll(async () => {
    server = await startPostgres();
    pooler = await startPgbouncer(server);
  }, 60_000);
  afterAll(async () => {
    await pooler?.stop();
    await server?.remove();
  });
  const quiet = { onProblem: () => {} };
  const create = createPostgresStore(() => ({ url: pooler.url, ...quiet }));
  const cases = storeContract(create).filter(
    ({ group, name }) => isDeep || group === "commit" || (group === "watch" && /second/.test(name)),
  );
  registerContract("in transaction mode", cases);

  it("tells once that no notifications come, and looks for changes instead", async () => {
    const problems: RivuletError[] = [];
    const schema = newSchema();
    const onProblem = (problem: RivuletError) => void problems.push(problem);
    const store = postgresStore({ url: pooler.url, schema, onProblem });
    const other = postgresStore({ url: pooler.url, schema, ...quiet });
    const warned = new Promise<void>((resolve) => {
      const timer = setInterval(() => {
        if (problems.length === 0) return;
        clearInterval(timer);
        resolve();
      }, 10);
    });
    let woken = Promise.withResolvers<void>();
    store.watch({ log: "task_1" }, () => woken.resolve());
    await warned;
    for (let round = 0; round < 3; round++) {
      await commitOnce(other, { events: deltas(1) });
      await woken.promise;
      woken = Promise.withResolvers();
    }
    expect(problems).toMatchObject([{ code: "no_notifications" }]);
    await Promise.all([store.close(), other.close()]);
  });

  it("gets notifications from the database itself with `listenUrl`", async () => {
    const problems: RivuletError[] = [];
    const schema = newSchema();
    const onProblem = (problem: RivuletError) => void problems.push(problem);
    const store = postgresStore({ url: pooler.url, listenUrl: server.url, schema, onProblem });
    const other = postgresStore({ url: pooler.url, schema, ...quiet });
    const woken = Promise.withResolvers<void>();
    store.watch({ inbox: "sess_1" }, () => woken.resolve());
    await commitOnce(other, { posts: [{ id: "post_1", kind: "hint", sessionId: "sess_1" }] });
    await woken.promise;
    await Promise.all([store.close(), other.close()]);
    expect(problems).toEqual([]);
  });
});
