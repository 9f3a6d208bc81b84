import { resolve } from "node:path";
import ts from "typescript";
import * as grammar from "../src/protocol/grammar/index.ts";
import { definitions } from "../src/schema/definitions.ts";

/** The meaning of every field of the wire, by the name of its shape or the type of its frame: the comments of the grammar. */
export function describeFields(): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const path = resolve("src/protocol/grammar/index.ts");
  const program = ts.createProgram([path], {
    allowImportingTsExtensions: true,
    module: ts.ModuleKind.NodeNext,
    noEmit: true,
    noLib: true,
    strict: true,
    types: [],
  });
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(path) as ts.SourceFile;
  const module = checker.getSymbolAtLocation(file) as ts.Symbol;
  const types = new Map(
    checker
      .getExportsOfModule(module)
      .map((symbol) => [symbol.name, checker.getTypeOfSymbolAtLocation(symbol, file)] as const),
  );
  const described = new Map<string, ReadonlyMap<string, string>>();
  const describe = (owner: string, ...parts: (ts.Type | undefined)[]) => {
    const properties = parts.flatMap((type) => type?.getProperties() ?? []);
    const fields = properties.map((field) => {
      return [
        field.name,
        phraseOf(ts.displayPartsToString(field.getDocumentationComment(checker))),
      ] as const;
    });
    described.set(owner, new Map(fields.filter(([, phrase]) => phrase !== "")));
  };
  for (const [name, shape] of Object.entries<unknown>(grammar))
    for (const [defined, owner] of definitions)
      if (defined === shape) describe(owner, types.get(name));
  describe("Annotation", types.get("citation"));
  describe("event", types.get("position"), types.get("origin"));
  for (const table of ["logEvents", "controlFrames"])
    for (const frame of types.get(table)?.getProperties() ?? [])
      describe(frame.name, checker.getTypeOfSymbolAtLocation(frame, file));
  describe("task.snapshot", types.get("snapshot"));
  describe("error", types.get("streamError"));
  return described;
}

/** A sentence as a phrase for a table. */
function phraseOf(sentence: string): string {
  const text = sentence.replace(/\.$/, "").replaceAll("\n", " ");
  return text.charAt(0).toLowerCase() + text.slice(1);
}
