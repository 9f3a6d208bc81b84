import { readFileSync } from "node:fs";
import { defineConfig, type Rolldown } from "tsdown";

const { exports, bin } = JSON.parse(readFileSync("package.json", "utf8")) as {
  exports: Record<string, string>;
  bin: Record<string, string>;
};

// The exports and programs of package.json are the one list of entries: dist/x/index.js is built from src/x/index.ts.
const entry = [...Object.values(exports), ...Object.values(bin)]
  .filter((file) => file.startsWith("./dist/"))
  .map((file) => file.replace("./dist/", "src/").replace(/\.js$/, ".ts"));
// A process of just-bash starts with a file of its own.
entry.push("src/harness/sandbox/shell-process.ts");

/** Small, without dependencies, and needed at the start: as a package, it would load nine more files. */
const bundled = "@cfworker/json-schema";
const notice = `/*!
 * Contains ${bundled}, Copyright (c) Jeremy Danyow, under the MIT license: Permission is hereby granted, free of charge,
 * to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the
 * Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute,
 * sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so,
 * subject to the following conditions: The above copyright notice and this permission notice shall be included in all
 * copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS
 * OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
 * NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 * LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE
 * OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 */`;

/** One character beyond ASCII doubles the memory of a file and slows its loading: V8 then stores 16-bit text. */
const ascii: Rolldown.Plugin = {
  name: "ascii",
  generateBundle(_, bundle) {
    const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
    for (const file of Object.values(bundle)) {
      if (file.type === "chunk" && file.fileName.endsWith(".js"))
        file.code = file.code.replace(/[^\0-\x7f]/g, escaped);
    }
  },
};

export default defineConfig({
  entry,
  // The page is built apart and stays when it has not changed.
  clean: ["dist/*", "!dist/playground"],
  root: "src",
  format: "esm",
  fixedExtension: false,
  dts: true,
  deps: { onlyBundle: [bundled] },
  plugins: [ascii],
  outputOptions: {
    banner: ({ moduleIds }) => (moduleIds.some((id) => id.includes(bundled)) ? notice : ""),
  },
  failOnWarn: true,
  // Files are not joined, so "use client" stays at the beginning of its own.
  checks: { moduleLevelDirective: false },
});
