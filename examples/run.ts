// `npm run example 01` runs examples/01-hello.ts; without a number, all examples run in sequence, each in its own
// process.
import "./from-source.ts";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

// Processes that an example forks resolve "rivulet" to the sources as well.
process.execArgv.push("--import", new URL("./from-source.ts", import.meta.url).href);

const prefix = process.argv[2] ?? "";
const examples = readdirSync(import.meta.dirname).filter((file) => /^\d.*\.ts$/.test(file));
const selected = examples.filter((file) => file.startsWith(prefix));
const [first] = selected;
if (first === undefined) {
  console.error(`Example ${prefix} does not exist. Available:\n  ${examples.join("\n  ")}`);
  process.exitCode = 1;
} else if (selected.length === 1) {
  await import(`./${first}`);
} else {
  for (const file of selected) {
    console.log(`\n── ${file} ──\n`);
    const { status } = spawnSync(process.execPath, [import.meta.filename, file], {
      stdio: "inherit",
    });
    if (status !== 0) process.exitCode = 1;
  }
}
