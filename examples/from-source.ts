// Resolves "rivulet" and its subpaths to the TypeScript sources, so that examples run without a build.
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const { name, exports } = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8"),
) as { name: string; exports: Record<string, string> };

const sources = new Map(
  Object.entries(exports)
    .filter(([, file]) => file.startsWith("./dist/"))
    .map(([key, file]) => [
      name + key.slice(1),
      new URL(file.replace("./dist/", "../src/").replace(/\.js$/, ".ts"), import.meta.url).href,
    ]),
);

registerHooks({
  resolve: (specifier, context, next) => next(sources.get(specifier) ?? specifier, context),
});
