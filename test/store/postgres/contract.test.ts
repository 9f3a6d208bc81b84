import { afterAll, beforeAll } from "vitest";
import { storeContract } from "../../../src/testing.ts";
import { registerContract } from "../../support/contract.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { createPostgresStore } from "./create-postgres-store.ts";

const { DATABASE_URL: url } = process.env;

if (url !== undefined) {
  const create = createPostgresStore(() => ({ url }), { dropped: true });
  registerContract("PostgreSQL of DATABASE_URL", storeContract(create));
}
if (hasPostgres()) {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(() => server?.remove());
  registerContract(
    "PostgreSQL store",
    storeContract(createPostgresStore(() => ({ url: server.url }))),
  );
}
