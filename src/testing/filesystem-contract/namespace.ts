import { deepEqual, equal, ok, throws } from "node:assert/strict";
import type { Filesystem, Namespace } from "../../harness/index.ts";
import { assertMatches } from "../contract.ts";
import { type FilesystemSuite, refusal, textOf } from "./fixture.ts";

const user = (id: string): Namespace => ({ scope: "user", id });

async function everything(files: Filesystem): Promise<string> {
  return JSON.stringify([
    await files.list(""),
    await files.glob("**"),
    await files.grep({ pattern: "." }),
  ]);
}

/** Files that belong to one user, session or agent. */
export function namespaceCases({ describe, it }: FilesystemSuite): void {
  describe("namespaces", () => {
    it("hides its files from others", async ({ files, second }) => {
      const [ann, bob] = [files.within(user("ann")), second.within(user("bob"))];
      await ann.write("notes.md", "from ann");
      equal(await textOf(second.within(user("ann")), "notes.md"), "from ann");
      for (const other of [bob, files, files.within({ scope: "session", id: "ann" })]) {
        equal(await refusal(other.read("notes.md")), "not_found");
        ok(!(await everything(other)).includes("ann"));
      }
      await bob.write("notes.md", "from bob");
      equal(await textOf(ann, "notes.md"), "from ann");
    });

    it("is empty before the first write", async ({ files }) => {
      const ann = files.within(user("ann"));
      deepEqual(await ann.list(""), { entries: [], cut: false });
      assertMatches(await ann.stat(""), { type: "directory" });
      deepEqual(await ann.glob("**"), { paths: [] });
      deepEqual(await ann.grep({ pattern: "x" }), { matches: [], tooLarge: 0 });
      equal(await refusal(ann.read("x")), "not_found");
    });

    it("cannot be reached by a path from outside", async ({ files }) => {
      await files.within(user("bob")).write("secret.txt", "from bob");
      const paths = [
        "../user-bob/secret.txt",
        "../bob/secret.txt",
        "/user-bob/secret.txt",
        ".rivulet/namespaces/user-bob/secret.txt",
        "/.rivulet/namespaces/user-bob/secret.txt",
        "skills/../../user-bob/secret.txt",
      ];
      for (const files_ of [files, files.within(user("ann"))]) {
        for (const path of paths) {
          ok(["outside_workspace", "invalid_path"].includes(await refusal(files_.read(path))));
        }
        for (const path of ["user-bob/secret.txt", "bob/secret.txt"]) {
          equal(await refusal(files_.read(path)), "not_found");
        }
      }
    });

    it("is different for every id", async ({ files }) => {
      const ids = [
        "ann",
        "Ann",
        "ANN",
        "a:b",
        "a/b",
        "../ann",
        ".",
        "..",
        "con",
        "é",
        "e\u0301",
        "a=b",
      ];
      ids.push(
        "x".repeat(256),
        "X".repeat(256),
        "X".repeat(127),
        "😀".repeat(64),
        " ann",
        "ann ",
        "\n",
      );
      for (const id of ids) await files.within(user(id)).write("id", id);
      for (const id of ids) equal(await textOf(files.within(user(id)), "id"), id);
      deepEqual(await files.list(""), { entries: [], cut: false });
    });

    it("rejects an invalid id", ({ files }) => {
      for (const id of ["", "x".repeat(257), "\ud800"]) {
        throws(() => files.within(user(id)), { code: "invalid_namespace" });
      }
    });
  });

  describe("below", () => {
    it("confines the filesystem to a directory, which the parent can read", async ({
      files,
      second,
    }) => {
      await files.write("parent.md", "of the parent");
      const child = files.below("agents/child/workspace");
      deepEqual(await child.list(""), { entries: [], cut: false });
      await child.write("notes.md", "of the child");
      equal(await textOf(second, "agents/child/workspace/notes.md"), "of the child");
      equal(await textOf(second.below("agents/child/workspace"), "notes.md"), "of the child");
      const above = "agents/child/workspace/notes.md";
      equal(await refusal(files.write(above, "x")), "read_only");
      equal(await refusal(child.read("parent.md")), "not_found");
      equal(await refusal(child.read("../../../parent.md")), "outside_workspace");
      ok(!(await everything(child)).includes("parent"));
      equal(await refusal(child.write("skills/x", "x")), "read_only");
    });

    it("is separate in every namespace and shares existing files", async ({ files }) => {
      const child = files.below("agents/child/workspace");
      await child.write("MEMORY.md", "memory of the child");
      await files.write("MEMORY.md", "memory of the parent");
      const [ann, bob] = [user("ann"), user("bob")];
      await child.within(ann).write("notes.md", "from ann");
      equal(await textOf(files.within(ann), "agents/child/workspace/notes.md"), "from ann");
      equal(
        await textOf(files.within(ann).below("agents/child/workspace"), "notes.md"),
        "from ann",
      );
      equal(await textOf(child.within(ann), "MEMORY.md"), "memory of the child");
      ok(!(await everything(child.within(bob))).includes("from ann"));
      ok(!(await everything(child)).includes("from ann"));
      ok(!(await everything(files.within(bob))).includes("from ann"));
    });

    it("can be nested", async ({ files }) => {
      const grandchild = files.below("a").below("b");
      await grandchild.write("c", "1");
      equal(await textOf(files, "a/b/c"), "1");
      equal(await refusal(grandchild.read("../c")), "outside_workspace");
      throws(() => files.below("../x"), { code: "outside_workspace" });
    });
  });
}
