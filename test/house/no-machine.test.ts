import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, sep } from "node:path";
import { expect, it } from "vitest";

// Each pattern is split, so that it does not match this file.
const patterns = [
  new RegExp(String.raw`(?<![\w.*/])/(?:ho${"me"}|Us${"ers"}|ro${"ot"}|wo${"rk"})/\w`),
  new RegExp(String.raw`\bregis${"try"}\.[a-z0-9-]+\.[a-z]|\bnpmm${"irror"}\.`),
];

function problemsIn(path: string, text: string): readonly string[] {
  return text
    .split("\n")
    .flatMap((line, index) =>
      patterns.some((pattern) => pattern.test(line))
        ? [`${path}:${index + 1}: ${line.trim()}`]
        : [],
    );
}

/** Lists every file that may be committed. */
function repositoryFiles(): readonly string[] {
  const ignored = ["node_modules", "dist", ".git", "coverage", ".rivulet"];
  return readdirSync(".")
    .filter((entry) => !ignored.includes(entry))
    .flatMap((entry) =>
      statSync(entry).isFile()
        ? [entry]
        : readdirSync(entry, { recursive: true, encoding: "utf8" }).map((path) =>
            join(entry, path),
          ),
    )
    .filter((path) => !path.split(sep).includes("node_modules") && statSync(path).isFile());
}

it("finds paths of one machine and registry addresses", () => {
  const bad = [`"/ho${"me"}/ann/x"`, `(/wo${"rk"}/main)`, `https://regis${"try"}.npmjs.org/x`];
  const good = [`src/wo${"rk"}/main`, "https://example.com/home/ann", "the npm registry. And more"];
  expect(problemsIn("x", [...bad, ...good].join("\n"))).toHaveLength(bad.length);
});

it("the repository contains no machine path and no registry address", () => {
  const files = repositoryFiles();
  expect(files).toEqual(expect.arrayContaining(["package-lock.json", ".ci/run", "README.md"]));
  expect(files.flatMap((path) => problemsIn(path, readFileSync(path, "utf8")))).toEqual([]);
});
