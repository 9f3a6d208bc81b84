import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { documents } from "../../scripts/repository-files.ts";

const manifest = JSON.parse(readFileSync("package.json", "utf8")) as {
  name: string;
  license: string;
  engines: { node: string };
  scripts: Record<string, string>;
  exports: Record<string, string>;
};
const textOf = (path: string) => readFileSync(path, "utf8");

it("links of documents point to existing files", () => {
  const broken = documents().flatMap(({ path, text }) =>
    Array.from(text.matchAll(/\]\((?!https?:|#)([^)#]+)/g), ([, link = ""]) => link)
      .filter((link) => !existsSync(join(dirname(path), link)))
      .map((link) => `${path}: ${link}`),
  );
  expect(broken).toEqual([]);
});

it("documents name only existing npm scripts", () => {
  const unknown = documents().flatMap(({ path, text }) =>
    Array.from(
      text.matchAll(/\bnpm (?:run )?(start|test|(?<=run )[\w:-]+)/g),
      ([, name = ""]) => name,
    )
      .filter((name) => manifest.scripts[name] === undefined)
      .map((name) => `${path}: ${name}`),
  );
  expect(unknown).toEqual([]);
});

it("documents name the Node version of package.json", () => {
  const least = manifest.engines.node.replace(">=", "");
  for (const path of ["README.md", "CONTRIBUTING.md"])
    expect(textOf(path).match(/Node >= ([\d.]+\d)/)?.[1], path).toBe(least);
});

it("README lists every export as working, and nothing else", () => {
  const works = textOf("README.md")
    .split("\n")
    .filter((line) => line.endsWith("| works |"))
    .flatMap((line) =>
      Array.from((line.split("|")[1] ?? "").matchAll(/`([^`]+)`/g), ([, name]) => name),
    );
  const exported = Object.keys(manifest.exports)
    .filter((key) => key !== "./package.json")
    .map((key) => manifest.name + key.slice(1));
  expect(works.sort()).toEqual(exported.sort());
});
