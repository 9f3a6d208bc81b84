import { isBuiltin } from "node:module";
import { posix } from "node:path";
import ts from "typescript";
import type { RepositoryFile } from "./repository-files.ts";

/** A folder of src and the folders that it may import; the drawing in ARCHITECTURE.md as data. */
export const layers: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  schema: ["protocol"],
  store: ["protocol"],
  client: ["protocol"],
  agent: ["protocol", "store"],
  testing: ["protocol", "store", "agent"],
  harness: ["protocol", "store", "client", "agent"],
  server: ["protocol", "schema", "store", "client", "agent", "harness"],
  cli: ["protocol", "schema", "store", "client", "agent", "harness", "server"],
};

/** What `src/index.ts` may put together. */
const rootMayImport = ["protocol", "store", "agent", "harness"];

/** An import, as it stands in a file. `name` is undefined when only the running program knows it. */
export interface Import {
  readonly line: number;
  readonly name: string | undefined;
}

/** Every import of a source text: static, re-exported, dynamic, `require` and in types. */
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
  const imports =
    expression.kind === ts.SyntaxKind.ImportKeyword ||
    (ts.isIdentifier(expression) && expression.text === "require");
  return imports ? node.arguments[0] : undefined;
}

/** What is wrong with the imports of one file of src. */
export function importProblems({ path, text }: RepositoryFile): readonly string[] {
  const layer = layerOf(path);
  const mayImport = layer === undefined ? rootMayImport : layers[layer];
  if (mayImport === undefined)
    return [`${path}: src/${layer} is not a layer; scripts/import-direction.ts lists them`];
  const problems: string[] = [];
  for (const { line, name } of importsOf(path, text)) {
    const problem = problemOf(path, layer, mayImport, name);
    if (problem !== undefined) problems.push(`${path}:${line}: ${problem}`);
  }
  return problems;
}

function problemOf(
  path: string,
  layer: string | undefined,
  mayImport: readonly string[],
  name: string | undefined,
): string | undefined {
  if (name === undefined)
    return layer === "protocol" ? "protocol imports something that has no fixed name" : undefined;
  if (name === "rivulet" || name.startsWith("rivulet/"))
    return `${name} is this package; import the file instead`;
  if (!name.startsWith(".")) {
    if (layer !== "protocol") return undefined;
    return `protocol imports ${isBuiltin(name) ? "the Node built-in" : "the package"} ${name}`;
  }
  const target = posix.join(posix.dirname(path), name);
  if (!target.startsWith("src/")) return `${name} is outside src`;
  const other = layerOf(target);
  if (other === layer || (other !== undefined && mayImport.includes(other))) return undefined;
  return `${layer ?? "src"} must not import ${other ?? target}`;
}

/** The folder of src that a file is in; undefined for files that are in none. */
function layerOf(path: string): string | undefined {
  const parts = path.split("/");
  return parts.length > 2 ? parts[1] : undefined;
}
