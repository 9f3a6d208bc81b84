import { existsSync, globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import ts from "typescript";
import { expect, it } from "vitest";

const { name, exports } = JSON.parse(readFileSync("package.json", "utf8")) as {
  name: string;
  exports: Record<string, string>;
};

it("every export is built from the source that its name resolves to in the repository", () => {
  const { config } = ts.readConfigFile("tsconfig.json", ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, resolve("."));
  for (const [key, file] of Object.entries(exports)) {
    if (!file.startsWith("./dist/")) continue;
    const source = file.replace("./dist/", "src/").replace(/\.js$/, ".ts");
    expect(existsSync(source), `${source}, for ${key}`).toBe(true);
    const { resolvedModule } = ts.resolveModuleName(
      name + key.slice(1),
      resolve("test/house/package.test.ts"),
      options,
      ts.sys,
    );
    expect(resolvedModule?.resolvedFileName, key).toBe(resolve(source));
  }
});

it("every export has documentation", () => {
  const { config } = ts.readConfigFile("tsconfig.json", ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, resolve("."));
  const entries = Object.values(exports)
    .filter((file) => file.startsWith("./dist/"))
    .map((file) => resolve(file.replace("./dist/", "src/").replace(/\.js$/, ".ts")));
  const program = ts.createProgram(entries, options);
  const checker = program.getTypeChecker();
  const undocumented = entries.flatMap((entry) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(entry) as ts.SourceFile);
    return checker.getExportsOfModule(module as ts.Symbol).flatMap((symbol) => {
      const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
      const target = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
      return target.getDocumentationComment(checker).length > 0 ? [] : [symbol.name];
    });
  });
  expect(undocumented).toEqual([]);
});

it("the API reference has every export", () => {
  const { entryPoints } = JSON.parse(readFileSync("typedoc.json", "utf8"));
  const sources = Object.values(exports)
    .filter((file) => file.startsWith("./dist/"))
    .map((file) => file.replace("./dist/", "src/").replace(/\.js$/, ".ts"));
  expect(entryPoints.toSorted()).toEqual(sources.toSorted());
});

const lockfiles = globSync(["package-lock.json", "tools/*/package-lock.json"]);

it.each(lockfiles)("%s lists the optional packages of every platform for `npm ci`", (lockfile) => {
  const { packages } = JSON.parse(readFileSync(lockfile, "utf8")) as {
    packages: Record<string, { optionalDependencies?: Record<string, string> }>;
  };
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (optional) =>
        !packages[`node_modules/${optional}`] && !packages[`${path}/node_modules/${optional}`],
    ),
  );
  expect(missing).toEqual([]);
});
