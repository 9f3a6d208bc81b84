import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { canHold, openDirectory } from "../filesystem/directory.ts";
import { findMasked, takeSurvey } from "./survey.ts";

/** Creates a directory with files, and opens it. */
async function directoryWith(paths: readonly string[]) {
  const path = mkdtempSync(join(tmpdir(), "rivulet-survey-"));
  for (const name of paths) {
    mkdirSync(join(path, name, ".."), { recursive: true });
    writeFileSync(join(path, name), "x");
  }
  const place = { path: "", base: [], names: [] };
  const root = await openDirectory({ path, held: canHold }, place);
  onTestFinished(async () => {
    await root.close();
    rmSync(path, { recursive: true });
  });
  return root;
}
const many = (count: number, name: string) =>
  Array.from({ length: count }, (_, index) => `${name}${index}/AGENTS.md`);

it("finds instructions in directories, in any case, and skips what commands cannot change", async () => {
  const paths = ["AGENTS.md", "a/AGENTS.md", "a/b/agents.MD", "skills/x/AGENTS.md", "a/other.md"];
  const root = await directoryWith(paths);
  const survey = await takeSurvey({ root, isKept: (name) => name === "skills" });
  expect([...survey.nested].sort()).toEqual(["a/AGENTS.md", "a/b/agents.MD"]);
  expect([...survey.paths].sort()).toEqual([
    "AGENTS.md",
    "a/AGENTS.md",
    "a/b/agents.MD",
    "a/other.md",
  ]);
});

it("rejects more instructions than a jail can keep read-only", async () => {
  const taken = takeSurvey({ root: await directoryWith(many(256, "d")), isKept: () => false });
  expect((await taken).nested).toHaveLength(256);
  const more = takeSurvey({ root: await directoryWith(many(257, "d")), isKept: () => false });
  await expect(more).rejects.toMatchObject({ code: "sandbox_failed" });
});

it("masks the topmost directories that have only hidden files, and other hidden files", async () => {
  const root = await directoryWith(["s/a", "s/b/c", "t/a.pem", "t/b", "u/v/x.pem", "u/y"]);
  const hides = (path: string) => path.startsWith("s/") || path.endsWith(".pem");
  const { directories, files } = await findMasked(root, hides);
  expect([...directories].sort()).toEqual(["s", "u/v"]);
  expect(files).toEqual(["t/a.pem"]);
});

it("rejects more hidden files than a jail can mask", async () => {
  const paths = Array.from({ length: 257 }, (_, index) => `${index}.pem`);
  const root = await directoryWith(paths);
  await expect(findMasked(root, () => true)).rejects.toMatchObject({ code: "sandbox_failed" });
});
