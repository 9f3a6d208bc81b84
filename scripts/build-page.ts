// Builds the page into dist/playground, unless it is built already from the same files.
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const inputs = ["playground/**/*.*", "src/{client,protocol}/**/*.ts", "package-lock.json"];
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
  const { build } = await import("vite");
  await build({ configFile: "playground/vite.config.ts", logLevel: "warn" });
  mkdirSync("dist/playground", { recursive: true });
  writeFileSync(stamp, digest);
  return true;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const start = performance.now();
  const onStart = () => console.log("rivulet: building the page (a few seconds, once)");
  if (await buildPage(onStart))
    console.log(`rivulet: built the page in ${((performance.now() - start) / 1000).toFixed(1)} s`);
}
