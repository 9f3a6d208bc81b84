import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store } from "../../../src/contract/store.ts";
import { postgresStore } from "../../../src/postgres.ts";
import { sqliteStore } from "../../../src/store/sqlite.ts";
import { exportConversations, importConversations } from "../../../src/store/transfer.ts";
import { collect } from "../../agent/support/collect.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../../support/postgres-server.ts";
import { fixtureTime, readContent, writeContent } from "../support/fixture-content.ts";
import { createFolder, removeFolder } from "../support/folder.ts";
import { newSchema } from "./create-postgres-store.ts";

const clock = { now: () => fixtureTime };

/** The contents without what belongs to one store: leases, inbox rows that were taken, and versions of files. */
async function contentOf(store: Store) {
  const { taken: _, owned: __, file, files, ...content } = await readContent(store);
  return { ...content, data: file?.data, paths: files.map(({ path, size }) => [path, size]) };
}

describe.skipIf(!hasPostgres())("conversations between SQLite and PostgreSQL", () => {
  let server: PostgresServer;
  let folder: string;
  beforeAll(async () => {
    server = await startPostgres();
    folder = createFolder();
  }, 60_000);
  afterAll(async () => {
    await server.remove();
    removeFolder(folder);
  });

  it("arrive whole, and are the same when they come back", async () => {
    const before = sqliteStore(join(folder, "before.db"), { clock });
    const moved = postgresStore({ url: server.url, schema: newSchema(), clock });
    const after = sqliteStore(join(folder, "after.db"), { clock });
    await writeContent(before);
    const lines = await collect(exportConversations(before));
    const imported = await importConversations(moved, lines);
    expect(imported).toEqual({ sessions: ["sess_1", "sess_2"], skipped: [] });
    const back = await collect(exportConversations(moved));
    expect(back).toEqual(lines);
    expect(await contentOf(moved)).toEqual(await contentOf(before));
    // A second import changes nothing.
    expect((await importConversations(moved, lines)).sessions).toEqual([]);
    await importConversations(after, back);
    expect(await contentOf(after)).toEqual(await contentOf(before));
    await Promise.all([before, moved, after].map((store) => store.close()));
  });
});
