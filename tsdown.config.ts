import { readFileSync } from "node:fs";
import { build, defineConfig, type InlineConfig, type Rolldown } from "tsdown";

const { exports, bin, engines } = JSON.parse(readFileSync("package.json", "utf8")) as {
  exports: Record<string, string>;
  bin: Record<string, string>;
  engines: { node: string };
};

// The exports and programs of package.json are the one list of entries: dist/x/index.js is built from src/x/index.ts.
const sourcesOf = (files: Record<string, string>) =>
  Object.values(files)
    .filter((file) => file.startsWith("./dist/"))
    .map((file) => file.replace("./dist/", "src/").replace(/\.js$/, ".ts"));
// A process of just-bash starts with a file of its own.
const library = [...sourcesOf(exports), "src/harness/sandbox/shell-process.ts"];
const programs = sourcesOf(bin);

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

/**
 * Takes the modules of Node.js from the process. An import statement reads each of their exports, and some of those load
 * other modules: that was a fifth of the time to import this package.
 */
const builtins: Rolldown.Plugin = {
  name: "builtins",
  generateBundle(_, bundle) {
    for (const file of Object.values(bundle)) {
      if (file.type !== "chunk" || !file.fileName.endsWith(".js")) continue;
      const code = file.code.replace(
        /^import \{ ([^}]+) \} from ("node:[^"]+");$/gm,
        (_statement, names: string, module: string) =>
          `const { ${names.replaceAll(" as ", ": ")} } = process.getBuiltinModule(${module});`,
      );
      if (code === file.code) continue;
      const [, shebang = "", rest = ""] = /^(#!.*\n)?([\s\S]*)$/.exec(code) ?? [];
      file.code = `${shebang}${versionCheck(shebang !== "")}\n${rest}`;
    }
  },
};

/** A statement that refuses a Node that is too old; without it, the first missing function would be the error. */
function versionCheck(isProgram: boolean): string {
  const [major, minor] = engines.node.replace(">=", "").split(".").map(Number);
  const message = `"Rivulet needs Node ${major}.${minor} or newer, and this is Node " + process.versions.node + "."`;
  const refuse = isProgram
    ? `{ console.error(${message}); process.exit(1); }`
    : `throw new Error(${message});`;
  // Bun and Deno have versions of their own.
  return `if (!process.versions.bun && !process.versions.deno && (([major, minor]) => major < ${major} || (major == ${major} && minor < ${minor}))(process.versions.node.split("."))) ${refuse}`;
}

/**
 * The types of the AI SDK are part of our declarations, because its package lacks those of `json-schema`: a project that
 * checks its libraries could not compile.
 */
const jsonSchemaType: Rolldown.Plugin = {
  name: "json-schema-type",
  generateBundle(_, bundle) {
    for (const file of Object.values(bundle)) {
      if (file.type === "chunk" && file.fileName.endsWith(".d.ts"))
        file.code = file.code.replace(
          /^import \{ JSONSchema7 \} from "json-schema";$/m,
          "type JSONSchema7 = object;",
        );
    }
  },
};

const common: InlineConfig = {
  root: "src",
  format: "esm",
  fixedExtension: false,
  // Files are not joined, so "use client" stays at the beginning of its own.
  checks: { moduleLevelDirective: false },
};

/**
 * The file of each module that the main entry imports: one for those of `rivulet/protocol`, one for others of entries that
 * a browser loads, one for the rest. The bundler itself makes a file for each set of entries, and an import of the package
 * would load a dozen of them.
 */
async function mainFiles(): Promise<ReadonlyMap<string, string>> {
  const imports = new Map<string, readonly string[]>();
  const entries: string[] = [];
  const graph: Rolldown.Plugin = {
    name: "graph",
    moduleParsed({ id, importedIds, isEntry }) {
      imports.set(id, importedIds);
      if (isEntry) entries.push(id);
    },
  };
  await build({
    ...{ ...common, config: false, entry: library, plugins: [graph] },
    ...{ dts: false, clean: false, write: false, logLevel: "error" },
  });
  const importedFrom = (found: readonly string[]) => {
    const modules = new Set(found);
    for (const id of modules) for (const next of imports.get(id) ?? []) modules.add(next);
    return modules;
  };
  const importedBy = (entry: RegExp) => importedFrom(entries.filter((id) => entry.test(id)));
  const main = importedBy(/\/src\/index\.ts$/);
  const protocol = importedBy(/\/src\/protocol\//);
  const browser = importedBy(/\/src\/(client|schema)\//);
  const fileOf = (id: string) =>
    protocol.has(id) ? "protocol" : browser.has(id) ? "common" : "core";
  return new Map([...main].map((id) => [id, fileOf(id)]));
}

const files = await mainFiles();

export default defineConfig({
  ...common,
  entry: [...library, ...programs],
  // The page is built apart and stays when it has not changed.
  clean: ["dist/*", "!dist/playground"],
  dts: true,
  deps: { alwaysBundle: ["@ai-sdk/provider"], onlyBundle: ["@ai-sdk/provider"] },
  plugins: [ascii, builtins, jsonSchemaType],
  // `includeDependenciesRecursively: false` requires it.
  inputOptions: { preserveEntrySignatures: "allow-extension" },
  outputOptions: {
    comments: { jsdoc: false }, // the declarations have them; here they would be a tenth of what an import loads
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [{ debugName: "main", name: (id) => files.get(id) ?? null }],
    },
  },
  failOnWarn: true,
});
