// Builds the page into dist/playground, unless it is built already from the same files.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const inputs = [
  "playground/**/*.*",
  "src/{*,{base,protocol,contract,client}/**/*}.ts",
  "package-lock.json",
];
const stamp = "dist/playground/.inputs";

/** Builds the page; resolves to false if there was nothing to do. */
export async function buildPage(onStart: () => void = () => {}): Promise<boolean> {
  const hash = createHash("sha256");
  for (const path of globSync(inputs).toSorted()) {
    if (!/\.test\.tsx?$/.test(path)) hash.update(path).update(readFileSync(path));
  }
  const digest = hash.digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === digest) return false;
  onStart();
  await runVite();
  writeFileSync(stamp, digest);
  return true;
}

/** Runs in its own process: a test runner would make Vite build for development. */
async function runVite(): Promise<void> {
  const args = ["build", "--config", "playground/vite.config.ts", "--logLevel", "warn"];
  const child = spawn(process.execPath, ["node_modules/vite/bin/vite.js", ...args], {
    env: { ...process.env, NODE_ENV: "production" },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.once("error", reject);
  child.once("close", (code) =>
    code === 0 ? resolve() : reject(new Error(`The build of the page failed with ${code}.`)),
  );
  return promise;
}

/** Builds the page if it has changed, and prints that it takes a moment. */
export async function buildPageWithProgress(): Promise<void> {
  const start = performance.now();
  const onStart = () => console.log("rivulet: building the page (a few seconds, once)");
  if (await buildPage(onStart))
    console.log(`rivulet: built the page in ${((performance.now() - start) / 1000).toFixed(1)} s`);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href)
  await buildPageWithProgress();
