// `npm run example 01` runs examples/01-hello.ts; without a number every example runs, one after the other.
import "./from-source.ts";
import { readdirSync } from "node:fs";

const number = process.argv[2] ?? "";
const all = readdirSync(import.meta.dirname).filter((file) => /^\d.*\.ts$/.test(file));
const chosen = all.filter((file) => file.startsWith(number));
if (chosen.length === 0) {
  console.error(`There is no example ${number}. There are:\n  ${all.join("\n  ")}`);
  process.exitCode = 1;
}
for (const file of chosen) {
  if (chosen.length > 1) console.log(`\n── ${file} ──\n`);
  await import(`./${file}`);
}
