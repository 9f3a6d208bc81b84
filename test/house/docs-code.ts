import { resolve } from "node:path";
import ts from "typescript";

/** A TypeScript block of a document. */
export interface DocsBlock {
  /** The path of the document. */
  readonly document: string;
  /** The line where the code starts. */
  readonly line: number;
  /** Declarations that readers do not see, from a `<!-- context … -->` comment before the block. */
  readonly context: string;
  readonly code: string;
  readonly language: "ts" | "tsx";
}

/** Finds the `ts` and `tsx` blocks of a Markdown text. */
export function codeBlocks(document: string, markdown: string): readonly DocsBlock[] {
  const fence =
    /(?:^<!-- context\n(?<context>.*?)\n-->\n+)?^```(?<language>ts|tsx|typescript)\b[^\n]*\n(?<code>.*?)^```$/gms;
  return Array.from(markdown.matchAll(fence), (match) => {
    const code = match.groups?.code ?? "";
    const before = markdown.slice(0, match.index + match[0].lastIndexOf(`${code}\`\`\``));
    return {
      document,
      line: before.split("\n").length,
      context: match.groups?.context ?? "",
      code,
      language: match.groups?.language === "tsx" ? "tsx" : "ts",
    };
  });
}

/** Parsed files of src and of the libraries, which do not change between calls. */
const parsedFiles = new Map<string, ts.SourceFile | undefined>();

/** Compiles every block as a module, all in one program, with the repository's settings. */
export function codeProblems(blocks: readonly DocsBlock[]): readonly string[] {
  const { config } = ts.readConfigFile("tsconfig.json", ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, resolve("."));
  const modules = new Map(
    blocks.map(
      (block) => [resolve(`${block.document}.${block.line}.${block.language}`), block] as const,
    ),
  );
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => modules.has(resolve(path)) || fileExists(path);
  host.getSourceFile = (path, target, ...rest) => {
    const block = modules.get(resolve(path));
    if (block !== undefined) return ts.createSourceFile(path, moduleText(block), target, true);
    if (!parsedFiles.has(path)) parsedFiles.set(path, getSourceFile(path, target, ...rest));
    return parsedFiles.get(path);
  };
  const program = ts.createProgram([...modules.keys()], options, host);
  return [...modules].flatMap(([path, block]) => {
    const file = program.getSourceFile(path);
    const found = [
      ...program.getSyntacticDiagnostics(file),
      ...program.getSemanticDiagnostics(file),
    ];
    return found.map((problem) => describe(block, problem));
  });
}

function moduleText({ context, code }: DocsBlock): string {
  return `${context}\nexport {};\n${code}`;
}

function describe(block: DocsBlock, problem: ts.Diagnostic): string {
  const line = problem.file?.getLineAndCharacterOfPosition(problem.start ?? 0).line ?? 0;
  const inCode = line - (block.context.split("\n").length + 1);
  const place = inCode < 0 ? `${block.line} (its context)` : `${block.line + inCode}`;
  return `${block.document}:${place}: ${ts.flattenDiagnosticMessageText(problem.messageText, "\n")}`;
}
