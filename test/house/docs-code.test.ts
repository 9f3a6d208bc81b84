import { expect, it } from "vitest";
import { documents } from "../../scripts/repository-files.ts";
import { codeBlocks, codeProblems } from "./docs-code.ts";

const markdown = `Text.

<!-- context
declare const tree: import("rivulet/protocol").Tree;
-->

\`\`\`ts
const cursor: number = tree.safeCursor;
const wrong: string = tree.safeCursor;
\`\`\`

\`\`\`sh
npm start
\`\`\`

\`\`\`ts
console.log(tree);
\`\`\`
`;

it("finds the code blocks of a document with their context", () => {
  expect(codeBlocks("a.md", markdown)).toEqual([
    {
      document: "a.md",
      line: 8,
      context: 'declare const tree: import("rivulet/protocol").Tree;',
      code: "const cursor: number = tree.safeCursor;\nconst wrong: string = tree.safeCursor;\n",
      language: "ts",
    },
    { document: "a.md", line: 17, context: "", code: "console.log(tree);\n", language: "ts" },
  ]);
});

it("reports the document line that does not compile", () => {
  expect(codeProblems(codeBlocks("a.md", markdown))).toEqual([
    "a.md:9: Type 'number' is not assignable to type 'string'.",
    "a.md:17: Cannot find name 'tree'.",
  ]);
});

it("every code block of the documents compiles", () => {
  const blocks = documents().flatMap(({ path, text }) => codeBlocks(path, text));
  expect(blocks).not.toEqual([]);
  expect(codeProblems(blocks)).toEqual([]);
});
