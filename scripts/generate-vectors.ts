import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { conformanceFiles } from "../test/conformance/index.ts";

// Writes the vectors of the conformance kit. A test fails when they are stale.
const folder = new URL("../conformance/", import.meta.url);
rmSync(new URL("vectors/", folder), { recursive: true, force: true });
mkdirSync(new URL("vectors/", folder), { recursive: true });
for (const [name, text] of Object.entries(conformanceFiles())) {
  writeFileSync(new URL(name, folder), text);
  console.log(`conformance/${name} ${Math.ceil(text.length / 1024)} kB`);
}
