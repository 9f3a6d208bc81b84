import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { memoryStore } from "../../store/memory.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { localFilesystem } from "../filesystem/local.ts";
import { storeFilesystem } from "../filesystem/store.ts";
import { placeSubagent } from "./placement.ts";

const base = { name: "reviewer", description: "Reviews code." };
const textOf = async (files: Filesystem, path: string) =>
  new TextDecoder().decode((await files.read(path)).data);

let directory: string;
let outside: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "rivulet-placement-"));
  outside = join(directory, "outside");
  await mkdir(join(outside, "reviewer"), { recursive: true });
  await writeFile(join(outside, "reviewer", "AGENTS.md"), "From elsewhere.");
});
afterEach(() => rm(directory, { recursive: true }));

type Open = (options?: { readonly readOnly: readonly string[] }) => Filesystem;
const store = memoryStore();
const kinds: readonly (readonly [string, Open])[] = [
  ["local", (options) => localFilesystem(join(directory, "main"), options)],
  ["store", (options) => storeFilesystem(store, { ...options, prefix: basename(directory) })],
];

describe.each(kinds)("placeSubagent in a %s workspace", (_, open) => {
  let main: Filesystem;
  beforeEach(async () => {
    main = open();
    const operator = open({ readOnly: [] });
    await operator.write("AGENTS.md", "The lead.");
    await operator.write("defs/reviewer/AGENTS.md", "\uFEFFYou review.\n");
  });

  it("uses the main workspace without instructions for general-purpose", async () => {
    const mirror = { name: "general-purpose", description: "Like you." };
    const placed = await placeSubagent({ ...mirror, workspaceMode: "shared" }, main);
    expect(placed).toEqual({ files: main, systemPrompt: "" });
  });

  it("uses the path and its AGENTS.md when isolated", async () => {
    const declaration = { ...base, workspace: "./defs/reviewer" };
    const { files, systemPrompt } = await placeSubagent(declaration, main);
    expect(systemPrompt).toBe("You review.");
    await files.write("notes.md", "mine");
    expect(await textOf(main, "defs/reviewer/notes.md")).toBe("mine");
    await expect(files.read("../../AGENTS.md")).rejects.toMatchObject({
      code: "outside_workspace",
    });
  });

  it("shares the files of the path with every user, who write to their own layer", async () => {
    await main.write("defs/reviewer/rules.md", "common");
    const { files } = await placeSubagent({ ...base, workspace: "defs/reviewer" }, main);
    const [ann, bob] = ["ann", "bob"].map((id) => files.within({ scope: "user", id }));
    expect(await textOf(ann as Filesystem, "AGENTS.md")).toContain("You review.");
    await ann?.write("rules.md", "Ann's");
    expect(await textOf(bob as Filesystem, "rules.md")).toBe("common");
    expect(await textOf(main, "defs/reviewer/rules.md")).toBe("common");
    await expect(ann?.write("AGENTS.md", "x")).rejects.toMatchObject({ code: "read_only" });
    await expect(main.write("defs/reviewer/AGENTS.md", "x")).rejects.toMatchObject({
      code: "read_only",
    });
  });

  it("uses the AGENTS.md of the path and the main workspace when shared", async () => {
    const declaration = { ...base, workspace: "defs/reviewer", workspaceMode: "shared" } as const;
    expect(await placeSubagent(declaration, main)).toEqual({
      files: main,
      systemPrompt: "You review.",
    });
  });

  it("uses the instructions and an own directory when isolated without a path", async () => {
    const declaration = { ...base, systemPrompt: "Review." };
    const { files, systemPrompt } = await placeSubagent(declaration, main);
    expect(systemPrompt).toBe("Review.");
    expect(await files.list("")).toEqual({ entries: [], cut: false });
    await files.write("report.md", "mine");
    const path = "agents/reviewer/workspace/report.md";
    expect(await textOf(main, path)).toBe("mine");
    await expect(main.write(path, "yours")).rejects.toMatchObject({ code: "read_only" });
    for (const control of ["subagents/x.md", "skills/x", "tools.json", "agents/x"]) {
      await expect(files.write(control, "x")).rejects.toMatchObject({ code: "read_only" });
    }
    const again = await placeSubagent(declaration, main);
    expect(await textOf(again.files, "report.md")).toBe("mine");
  });

  it("uses the instructions and the main workspace when shared without a path", async () => {
    const declaration = { ...base, systemPrompt: "Review.", workspaceMode: "shared" } as const;
    expect(await placeSubagent(declaration, main)).toEqual({
      files: main,
      systemPrompt: "Review.",
    });
  });

  it("has no instructions without an AGENTS.md or directory", async () => {
    await main.write("defs/empty/notes.md", "");
    for (const workspace of ["defs/empty", "defs/none"]) {
      expect((await placeSubagent({ ...base, workspace }, main)).systemPrompt, workspace).toBe("");
    }
  });

  it("allows several subagents with one definition", async () => {
    const workspace = "defs/reviewer";
    const one = await placeSubagent({ ...base, workspace }, main);
    const other = await placeSubagent({ ...base, name: "second", workspace }, main);
    expect(other.systemPrompt).toBe(one.systemPrompt);
  });

  it.each(["..", "defs/../../x", "/etc", "~root"])("refuses the path %j", async (workspace) => {
    for (const workspaceMode of ["isolated", "shared"] as const) {
      const placed = placeSubagent({ ...base, workspace, workspaceMode }, main);
      await expect(placed).rejects.toMatchObject({
        code: "outside_workspace",
        hint: expect.stringContaining("subagentRoots"),
      });
    }
  });

  it.each(["subagents", "./x/../SubAgents/y", "skills/z", "agents", ".git", "a/.git/hooks"])(
    "refuses to work in %j",
    async (workspace) => {
      const placed = placeSubagent({ ...base, workspace }, main);
      await expect(placed).rejects.toMatchObject({ code: "read_only" });
      const shared = { ...base, workspace, workspaceMode: "shared" } as const;
      expect(await placeSubagent(shared, main)).toEqual({ files: main, systemPrompt: "" });
    },
  );

  it("allows work in a directory below agents", async () => {
    const { files } = await placeSubagent({ ...base, workspace: "agents/reviewer" }, main);
    await files.write("notes.md", "mine");
    expect(await textOf(main, "agents/reviewer/notes.md")).toBe("mine");
  });

  it("leaves the workspace only below a root of the operator", async () => {
    const workspace = join(outside, "reviewer");
    const place = (roots: readonly string[]) =>
      placeSubagent({ ...base, workspace }, main, { roots });
    for (const root of [outside, workspace]) {
      const { files, systemPrompt } = await place([join(directory, "no"), root]);
      expect(systemPrompt).toBe("From elsewhere.");
      await files.write("notes.md", root);
      expect(await readFile(join(workspace, "notes.md"), "utf8")).toBe(root);
    }
    for (const root of [`${workspace}-other`, join(workspace, "deeper"), join(directory, "out")]) {
      await expect(place([root]), root).rejects.toMatchObject({ code: "outside_workspace" });
    }
    const up = { ...base, workspace: `${outside}/../outside/../main` };
    await expect(placeSubagent(up, main, { roots: [outside] })).rejects.toBeDefined();
  });
});

describe("placeSubagent on a disk", () => {
  it("accepts an absolute path inside the workspace", async () => {
    const root = join(directory, "main");
    const main = localFilesystem(root);
    await mkdir(join(root, "subagents"), { recursive: true });
    const { files } = await placeSubagent({ ...base, workspace: join(root, "defs") }, main);
    await files.write("notes.md", "mine");
    expect(await textOf(main, "defs/notes.md")).toBe("mine");
    const control = { ...base, workspace: join(root, "subagents") };
    await expect(placeSubagent(control, main)).rejects.toMatchObject({ code: "read_only" });
  });

  it("follows no link in the workspace or below a root", async () => {
    const root = join(directory, "main");
    await mkdir(root);
    await symlink(outside, join(root, "link"));
    await symlink(join(outside, "reviewer"), join(outside, "link"));
    const main = localFilesystem(root);
    const places = [
      { ...base, workspace: "link/reviewer" },
      { ...base, workspace: join(outside, "link") },
    ];
    for (const declaration of places) {
      const placed = placeSubagent(declaration, main, { roots: [outside] });
      await expect(placed).rejects.toMatchObject({ code: "not_regular" });
    }
  });
});
