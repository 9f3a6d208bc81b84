import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { sourceFiles } from "../../scripts/repository-files.ts";

/** The codes that the sources throw, and those that a failed model call gets. */
function thrownCodes(): ReadonlySet<string> {
  const codes = sourceFiles().flatMap(({ path, text }) => {
    if (path.includes("-contract/")) return [];
    const thrown = [...text.matchAll(/(?:new RivuletError|onMissing)\(\s*"(\w+)"/g)];
    const fromModels = path.endsWith("model-error.ts") ? text.matchAll(/code: "(\w+)"/g) : [];
    return [...thrown, ...fromModels].map(([, code = ""]) => code);
  });
  return new Set(codes);
}

it("the guide to errors lists every code that is thrown", () => {
  const guide = readFileSync("docs/guide/errors.md", "utf8");
  const listed = new Set(
    Array.from(guide.matchAll(/^\| ((?:`\w+`(?:, )?)+) \|/gm), ([, cell = ""]) =>
      Array.from(cell.matchAll(/`(\w+)`/g), ([, code = ""]) => code),
    ).flat(),
  );
  const thrown = [...thrownCodes()].sort();
  expect(thrown.length).toBeGreaterThan(80);
  expect(thrown.filter((code) => !listed.has(code))).toEqual([]);
});
