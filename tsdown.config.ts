import { readFileSync } from "node:fs";
import { defineConfig } from "tsdown";

const { exports } = JSON.parse(readFileSync("package.json", "utf8")) as {
  exports: Record<string, string>;
};

// The exports of package.json are the one list of entries: dist/x/index.js is built from src/x/index.ts.
const entry = Object.values(exports)
  .filter((file) => file.startsWith("./dist/"))
  .map((file) => file.replace("./dist/", "src/").replace(/\.js$/, ".ts"));

export default defineConfig({
  entry,
  root: "src",
  format: "esm",
  fixedExtension: false,
  unbundle: true,
  dts: true,
  failOnWarn: true,
});
