import { writeFileSync } from "node:fs";
import { documents } from "../src/schema/async-api.ts";
import { eventTables } from "./event-tables.ts";

// Writes the files of docs/protocol that come from the grammar. A test fails when they are stale.
const folder = new URL("../docs/protocol/", import.meta.url);
for (const [name, text] of Object.entries({ ...documents, "events.md": eventTables })) {
  writeFileSync(new URL(name, folder), text);
  console.log(`docs/protocol/${name}`);
}
