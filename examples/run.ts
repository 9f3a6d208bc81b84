// `npm run example 01` runs examples/01-hello.ts; without a number, all examples run in sequence.
import "./from-source.ts";
import { readdirSync } from "node:fs";

const prefix = process.argv[2] ?? "";
const examples = readdirSync(import.meta.dirname).filter((file) => /^\d.*\.ts$/.test(file));
const selected = examples.filter((file) => file.startsWith(prefix));
if (selected.length === 0) {
  console.error(`Example ${prefix} does not exist. Available:\n  ${examples.join("\n  ")}`);
  process.exitCode = 1;
}
for (const file of selected) {
  if (selected.length > 1) console.log(`\n── ${file} ──\n`);
  await import(`./${file}`);
}
