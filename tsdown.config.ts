import { readFileSync } from "node:fs";
import { build, defineConfig, type InlineConfig, type Rolldown } from "tsdown";

const { exports, bin, engines } = JSON.parse(readFileSync("package.json", "utf8")) as {
  exports: Record<string, string>;
  bin: Record<string, string>;
  engines: { node: string };
};

// The exports and programs of package.json are the one list of entries: dist/x.js is built from src/x.ts.
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
 * The file of each module that the main entry needs: one for those that `rivulet/protocol` needs too, one for those of
 * other entries that a browser loads, one for the rest. The bundler itself makes a file for each set of entries, and an
 * import of the package would load a dozen of them.
 */
async function mainFiles(): Promise<ReadonlyMap<string, string>> {
  const main = await modulesOf("src/index.ts");
  const protocol = await modulesOf("src/protocol.ts");
  const browser = await modulesOf("src/client.ts", "src/react.ts", "src/schema.ts");
  const fileOf = (id: string) =>
    protocol.has(id) ? "protocol" : browser.has(id) ? "common" : "core";
  return new Map([...main].map((id) => [id, fileOf(id)]));
}

/** The modules of which something is left in the files that entries load at once. */
async function modulesOf(...entry: string[]): Promise<ReadonlySet<string>> {
  const modules = new Set<string>();
  const collect: Rolldown.Plugin = {
    name: "collect",
    generateBundle(_, bundle) {
      const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
      const loaded = new Set(chunks.filter(({ isEntry }) => isEntry));
      for (const { imports, modules: parts } of loaded) {
        for (const chunk of chunks) if (imports.includes(chunk.fileName)) loaded.add(chunk);
        for (const [id, { code }] of Object.entries(parts)) if (code !== null) modules.add(id);
      }
    },
  };
  await build({
    ...{ ...common, config: false, entry, plugins: [collect] },
    ...{ dts: false, clean: false, write: false, logLevel: "error" },
  });
  return modules;
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
