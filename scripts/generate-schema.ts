import { writeFileSync } from "node:fs";
import { documents } from "../src/schema/async-api.ts";

// Writes the schemas for readers in other languages. A test fails when they are stale.
const folder = new URL("../docs/protocol/", import.meta.url);
for (const [name, text] of Object.entries(documents)) {
  writeFileSync(new URL(name, folder), text);
  console.log(`docs/protocol/${name}`);
}
