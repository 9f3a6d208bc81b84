import { isBuiltin } from "node:module";
import { posix } from "node:path";
import ts from "typescript";
import type { RepositoryFile } from "./repository-files.ts";

/** Each layer and the layers it may import, lowest layer first. */
export type LayerTable = Readonly<Record<string, readonly string[]>>;

/** The folders of src, as drawn in ARCHITECTURE.md. Every layer may also import `base`. */
export const layers: LayerTable = {
  base: [],
  protocol: [],
  contract: ["protocol"],
  schema: ["protocol", "contract"],
  store: ["protocol", "contract"],
  client: ["protocol", "contract"],
  links: ["protocol", "contract", "client"],
  agent: ["protocol", "contract", "store"],
  mcp: ["protocol", "contract", "agent"],
  ai: ["protocol", "contract", "agent"],
  harness: ["protocol", "contract", "store", "client", "links", "agent", "mcp"],
  testing: ["protocol", "contract", "store", "agent", "harness"],
  server: ["protocol", "contract", "schema", "store", "client", "agent", "harness"],
  adapters: ["protocol", "contract", "client", "links", "agent", "server"],
  app: ["protocol", "contract", "store", "agent", "harness", "server", "adapters"],
  cli: [
    ...["protocol", "contract", "schema", "store", "client"],
    ...["agent", "harness", "testing", "server", "adapters", "app"],
  ],
};

/** The folders and top-level files of src/agent. */
export const agentLayers: LayerTable = {
  base: [],
  tool: ["base"],
  model: ["base", "tool"],
  events: ["base", "tool", "model"],
  loop: ["base", "tool", "model", "events"],
  drive: ["base", "tool", "model", "events", "loop"],
  remote: ["base", "tool", "model", "events", "loop", "drive"],
  stream: ["base", "tool", "model", "events", "loop", "drive"],
  "react-agent.ts": ["base", "tool", "model", "events", "loop", "drive", "remote", "stream"],
  "tool-agent.ts": ["base", "tool", "loop", "react-agent.ts"],
  "agent-tool.ts": ["base", "tool", "model", "events", "loop", "drive", "stream", "react-agent.ts"],
  "index.ts": [
    ...["base", "tool", "model", "events", "loop", "drive", "stream"],
    ...["react-agent.ts", "agent-tool.ts", "tool-agent.ts"],
  ],
};

/** The entries of the package, and the layers that each of them exports from. */
const entries: LayerTable = {
  "index.ts": ["protocol", "contract", "store", "agent", "mcp", "ai", "harness"],
  "protocol.ts": ["protocol", "contract"],
  "client.ts": ["client"],
  "chat-transport.ts": ["links"],
  "react.ts": ["protocol", "contract", "client"],
  "schema.ts": ["schema"],
  "testing.ts": ["testing"],
  "server.ts": ["server", "app"],
  "store.ts": ["contract"],
  "postgres.ts": ["store"],
};

/** The files of `adapters` that reach agents of another ecosystem; the others serve our agents to it. */
const linkFile = /^src\/adapters\/(links|foreign-[^/]+|[^/]+\/link(-[^/]+)?)\.ts$/;

/** The door of the store on PostgreSQL, which only programs that use it load. */
const postgresDoor = "src/store/postgres/index.ts";

/** The one file of a layer that other layers import; `base` is a toolbox, whose files are imported one by one. */
function doorOf(layer: string): string | undefined {
  if (layer === "base") return undefined;
  return layer === "links" ? "src/adapters/links.ts" : `src/${layer}/index.ts`;
}

/** An import in a source file. */
export interface Import {
  readonly line: number;
  /** Undefined when the module name is computed at run time. */
  readonly name: string | undefined;
  /** True when the import is erased and does not load the module. */
  readonly isTypeOnly: boolean;
}

/** Lists every import of a source text: static, re-exported, dynamic, `require` and in types. */
export function importsOf(path: string, text: string): readonly Import[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const imports: Import[] = [];
  const visit = (node: ts.Node): void => {
    const target = importTarget(node);
    if (target !== undefined) {
      const { line } = file.getLineAndCharacterOfPosition(node.getStart());
      imports.push({
        line: line + 1,
        name: ts.isStringLiteralLike(target) ? target.text : undefined,
        isTypeOnly: isTypeOnly(node),
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return imports;
}

function importTarget(node: ts.Node): ts.Node | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return node.moduleSpecifier;
  if (ts.isExternalModuleReference(node)) return node.expression;
  if (ts.isImportTypeNode(node))
    return ts.isLiteralTypeNode(node.argument) ? node.argument.literal : node.argument;
  if (!ts.isCallExpression(node)) return undefined;
  const { expression } = node;
  const isImportCall =
    expression.kind === ts.SyntaxKind.ImportKeyword ||
    (ts.isIdentifier(expression) && expression.text === "require");
  return isImportCall ? node.arguments[0] : undefined;
}

/** `import { type A } from "./a.ts"` is not type-only: with verbatimModuleSyntax it still loads the module. */
function isTypeOnly(node: ts.Node): boolean {
  if (ts.isImportDeclaration(node))
    return node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword;
  if (ts.isExportDeclaration(node)) return node.isTypeOnly;
  if (ts.isExternalModuleReference(node)) return node.parent.isTypeOnly;
  return ts.isImportTypeNode(node);
}

/** Resolves a relative import to a path of the repository; undefined for packages and built-ins. */
export function resolveImport(path: string, name: string | undefined): string | undefined {
  return name?.startsWith(".") ? posix.join(posix.dirname(path), name) : undefined;
}

/** Lists the imports of one file of src, values and types alike, that its layer does not allow. */
export function importProblems({ path, text }: RepositoryFile): readonly string[] {
  const unlisted = unlistedLayer(path);
  if (unlisted !== undefined)
    return [`${path}: ${unlisted} is not a layer. List it in scripts/import-direction.ts.`];
  return importsOf(path, text).flatMap(({ line, name }) => {
    const problem = importProblem(path, name);
    return problem === undefined ? [] : [`${path}:${line}: ${problem}`];
  });
}

/** What the page may import besides its own files. */
const pageMayImport = /^(rivulet\/(client|react|protocol)|react|react-dom\/client)$/;

/** Lists the imports of a file of the page that are neither its own files nor what a page may use; types load nothing. */
export function pageImportProblems({ path, text }: RepositoryFile): readonly string[] {
  return importsOf(path, text).flatMap(({ line, name, isTypeOnly }) => {
    const target = resolveImport(path, name);
    const isUsable = pageMayImport.test(name ?? "") || (isTypeOnly && name === "rivulet");
    const isAllowed = target?.startsWith("playground/src/") ?? isUsable;
    return isAllowed ? [] : [`${path}:${line}: the page must not import ${name}`];
  });
}

function unlistedLayer(path: string): string | undefined {
  const layer = layerOf(path);
  if (layer === undefined) return entries[path.slice("src/".length)] ? undefined : path;
  if (layers[layer] === undefined) return `src/${layer}`;
  const agentLayer = agentLayerOf(path);
  if (agentLayer !== undefined && agentLayers[agentLayer] === undefined)
    return `src/agent/${agentLayer}`;
  return undefined;
}

/** The layers that run in a browser without any package. */
const pure = ["base", "protocol", "contract"];
/** Part of the package without being a layer: the offline model, which an entry and the command line add. */
const demoProvider = "sample/demo/provider.ts";

function importProblem(path: string, name: string | undefined): string | undefined {
  const layer = layerOf(path);
  const isPure = layer !== undefined && pure.includes(layer);
  if (name === undefined)
    return isPure ? `${layer} imports a module with a computed name` : undefined;
  if (name === "rivulet" || name.startsWith("rivulet/"))
    return `${name} is this package. Import the file instead.`;
  const target = resolveImport(path, name);
  if (target === undefined) {
    if (!isPure) return undefined;
    return `${layer} imports ${isBuiltin(name) ? "the Node built-in" : "the package"} ${name}`;
  }
  if (target === demoProvider && (path === "src/index.ts" || layer === "cli")) return undefined;
  if (!target.startsWith("src/")) return `${name} is outside src`;
  return layerProblem(path, target) ?? agentLayerProblem(path, target);
}

function layerProblem(path: string, target: string): string | undefined {
  const layer = layerOf(path);
  const targetLayer = layerOf(target);
  if (targetLayer === layer && layer !== undefined) return undefined;
  const mayImport = (layer === undefined ? entries[path.slice(4)] : layers[layer]) ?? [];
  if (targetLayer === undefined || ![...mayImport, "base"].includes(targetLayer))
    return `${layer ?? path} must not import ${targetLayer ?? target}`;
  // The two directions of an ecosystem share files.
  if (layer === "adapters" && targetLayer === "links") return undefined;
  const door = path === "src/postgres.ts" ? postgresDoor : doorOf(targetLayer);
  return door === undefined || target === door
    ? undefined
    : `${target} is inside ${targetLayer}. Import ${door}.`;
}

function agentLayerProblem(path: string, target: string): string | undefined {
  const layer = agentLayerOf(path);
  const targetLayer = agentLayerOf(target);
  if (layer === undefined || targetLayer === undefined || targetLayer === layer) return undefined;
  if (agentLayers[layer]?.includes(targetLayer)) return undefined;
  return `agent/${layer} must not import agent/${targetLayer} (${target})`;
}

/** Returns the layer of a file, or undefined for files directly in src. */
function layerOf(path: string): string | undefined {
  if (linkFile.test(path)) return "links";
  const parts = path.split("/");
  return parts.length > 2 ? parts[1] : undefined;
}

/** Returns the folder or top-level file of src/agent, or undefined outside src/agent. */
function agentLayerOf(path: string): string | undefined {
  const [, layer, name] = path.split("/");
  return layer === "agent" ? name : undefined;
}
