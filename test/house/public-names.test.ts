import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as {
  exports: Record<string, string>;
};
const entries = Object.values(manifest.exports)
  .filter((file) => file.startsWith("./dist/"))
  .map((file) => file.replace("./dist/", "src/").replace(/\.js$/, ".ts"));
const listed = JSON.parse(
  readFileSync(new URL("public-names.json", import.meta.url), "utf8"),
) as Record<string, readonly string[]>;

/** The names that an entry exports, types included. */
function namesOf(program: ts.Program, entry: string): readonly string[] {
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(resolve(entry)) as ts.SourceFile;
  const symbol = checker.getSymbolAtLocation(file) as ts.Symbol;
  return checker
    .getExportsOfModule(symbol)
    .map(({ name }) => name)
    .sort();
}

describe("the public names", () => {
  const program = ts.createProgram(
    entries.map((entry) => resolve(entry)),
    { allowImportingTsExtensions: true, module: ts.ModuleKind.NodeNext, noEmit: true, noLib: true },
  );
  const found = Object.fromEntries(
    entries.map((entry) => [basename(entry, ".ts"), namesOf(program, entry)]),
  );

  it("are those of public-names.json; add a name there when users need it", () => {
    expect(found).toEqual(listed);
  });

  it("are at most 339, besides the types for authors of stores and the entries for other ecosystems", () => {
    const { store: _, "chat-transport": __, ...others } = found;
    expect(new Set(Object.values(others).flat()).size).toBeLessThanOrEqual(339);
  });

  it("are in one entry each, except for two values that programs and pages make", () => {
    const all = Object.values(found).flat();
    const repeated = all.filter((name, index) => all.indexOf(name) !== index);
    expect(repeated.sort()).toEqual(["RivuletError", "userMessage"]);
  });
});
