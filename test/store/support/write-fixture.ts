// Writes a fixture with the current schema; run it once per schema version:
// node test/store/support/write-fixture.ts test/store/fixtures/schema-<version>.db
import { rmSync } from "node:fs";
import { sqliteStore } from "../../../src/store/sqlite.ts";
import { fixtureTime, writeContent } from "./fixture-content.ts";

const path = process.argv[2];
if (path === undefined) throw new Error("Pass the path of the fixture.");
rmSync(path, { force: true });
const store = sqliteStore(path, { clock: { now: () => fixtureTime } });
await writeContent(store);
await store.close();
