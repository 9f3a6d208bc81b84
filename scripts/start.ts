// Runs with `npm start`: builds the page, installs what the flags need, and serves the demo.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { buildPageWithProgress } from "./build-page.ts";

const inRepository = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const args = process.argv.slice(2);
if (args.some((word) => word === "--postgres" || word.startsWith("--postgres="))) {
  const setup = [inRepository("scripts/setup.mjs"), "--for-postgres"];
  const { status } = spawnSync(process.execPath, setup, { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
await buildPageWithProgress();
const program = inRepository("src/cli/main.ts");
process.argv = [process.execPath, program, "serve", "--demo", ...args];
await import(program);
