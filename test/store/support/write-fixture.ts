// Writes a database of the present schema, to be kept when that schema is released:
// node test/store/support/write-fixture.ts test/store/fixtures/schema-<version>.db
import { rmSync } from "node:fs";
import { sqliteStore } from "../../../src/store/sqlite.ts";
import { fixtureTime, writeContent } from "./fixture-content.ts";

const path = process.argv[2];
if (path === undefined) throw new Error("Say where to write it.");
rmSync(path, { force: true });
const store = sqliteStore(path, { clock: { now: () => fixtureTime } });
await writeContent(store);
await store.close();
