import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Filesystem } from "../../../src/harness/filesystem/filesystem.ts";
import { sandboxFilesystem } from "../../../src/harness/filesystem/sandbox.ts";
import { processesWith } from "./support/processes.ts";
import { hasBubblewrap, workspaceDirectory, workspacesIn } from "./support/sandbox.ts";

const text = async (files: Filesystem, path: string) =>
  Buffer.from((await files.read(path)).data).toString();
const paths = async (files: Filesystem, path = "") =>
  (await files.list(path)).entries.map((entry) => entry.path);
const run = async (files: Filesystem, script: string) =>
  (await files.shell?.run(script))?.output ?? "no shell";

const jails = [...(hasBubblewrap ? (["bubblewrap"] as const) : []), "just-bash", "unsafe"] as const;

describe.runIf(hasBubblewrap)("files in bubblewrap after a crash", () => {
  it("lose the copies of common files with the next command", async () => {
    const root = await workspaceDirectory();
    const program = join(import.meta.dirname, "support/command-process.ts");
    const child = fork(program, [root, "echo own > own.txt; echo x >> common.txt; sleep 74.25"]);
    while (processesWith("sleep 74.25").length < 2) await sleep(10);
    const layer = join(root, ".rivulet/namespaces/user-ann");
    while (!existsSync(join(layer, "own.txt"))) await sleep(10);
    expect(await readdir(layer)).toContain("other.txt");
    child.kill("SIGKILL");
    await once(child, "exit");
    const files = sandboxFilesystem(root, { jail: "bubblewrap" });
    const ann = files.within({ scope: "user", id: "ann" });
    expect(await run(ann, "cat own.txt common.txt other.txt")).toBe("own\ncommon\nx\nother\n");
    expect((await readdir(layer)).sort()).toEqual(["common.txt", "own.txt"]);
  });
});

describe.each(workspacesIn(jails))("files in $name", ({ jail, create }) => {
  it("shows each side what the other wrote", async () => {
    const { files } = await create();
    await files.write("notes/plan.md", "from the tool\n");
    expect(await run(files, "cat notes/plan.md; mkdir -p out; echo shell > out/a.txt")).toBe(
      "from the tool\n",
    );
    expect(await text(files, "out/a.txt")).toBe("shell\n");
    await files.write("out/a.txt", "again\n");
    expect(await run(files, "echo more >> out/a.txt; cat out/a.txt")).toBe("again\nmore\n");
    expect(await run(files, "rm out/a.txt; ls out")).toBe("");
    expect(await files.stat("out/a.txt")).toBeUndefined();
  });

  it("shows the common files under those of the user, and never writes them", async () => {
    const { files } = await create();
    await files.write("docs/a.md", "common a\n");
    await files.write("docs/b.md", "common b\n");
    await files.write("top.md", "common top\n");
    const ann = files.within({ scope: "user", id: "ann" });
    const bob = files.within({ scope: "user", id: "bob" });
    await ann.write("docs/a.md", "ann's a\n");
    expect(await run(ann, "cat docs/a.md docs/b.md top.md")).toBe(
      "ann's a\ncommon b\ncommon top\n",
    );
    await run(ann, "echo changed >> docs/b.md; rm top.md; echo own > own.md");
    expect(await text(ann, "docs/b.md")).toBe("common b\nchanged\n");
    expect(await paths(ann)).toEqual(["docs", "own.md"]);
    expect(await run(ann, "ls; cat docs/b.md")).toContain("changed");
    expect(await run(bob, "cat docs/a.md docs/b.md top.md; ls")).not.toMatch(/ann|changed|own/);
    expect(await text(files, "docs/b.md")).toBe("common b\n");
    expect(await paths(files)).toEqual(["docs", "top.md"]);
  });

  it("hides a removed directory of the common files, with earlier changes to it", async () => {
    const { files } = await create();
    for (const name of ["a", "b", "sub/c"]) await files.write(`docs/${name}`, name);
    const ann = files.within({ scope: "user", id: "ann" });
    await ann.remove("docs/b");
    await ann.write("docs/a", "own");
    await run(ann, "rm -r docs");
    expect(await paths(ann)).toEqual([]);
    await run(ann, "mkdir -p docs; echo new > docs/d");
    expect(await paths(ann, "docs")).toEqual(["docs/d"]);
    expect(await paths(files, "docs")).toEqual(["docs/a", "docs/b", "docs/sub"]);
  });

  it("shows a later change of a common file", async () => {
    const { files } = await create();
    await files.write("a.md", "old\n");
    const ann = files.within({ scope: "user", id: "ann" });
    await run(ann, "cat a.md");
    await files.write("a.md", "new\n");
    expect(await text(ann, "a.md")).toBe("new\n");
    expect(await run(ann, "cat a.md")).toBe("new\n");
  });

  it("leaves nothing in the layer that the user has not changed", async () => {
    const { files, paths } = await create();
    await files.write("data/x", "1");
    const ann = files.within({ scope: "user", id: "ann" });
    await run(ann, "cat data/x; ls");
    await ann.write("mine", "1");
    expect(await paths()).toEqual([".rivulet/namespaces/user-ann/mine", "data/x"]);
    expect(await text(files, "data/x")).toBe("1");
  });

  it("gives a child the files below its directory alone", async () => {
    const { files } = await create();
    await files.write("secret.md", "secret");
    const child = files.below("work/child");
    const seen = await run(child, "echo x > here; ls; cat ../../secret.md");
    if (jail !== "unsafe") expect(seen).not.toMatch(/^secret$/m);
    expect(await text(files, "work/child/here")).toBe("x\n");
  });
});
