import { describe, expect } from "vitest";
import type { Filesystem } from "../filesystem.ts";
import type { Namespace } from "../namespace.ts";
import { type ContractTest, pathsOf, patient, refusal, textOf } from "./fixture.ts";

const user = (id: string): Namespace => ({ scope: "user", id });

async function everything(files: Filesystem): Promise<string> {
  return JSON.stringify([
    await files.list(""),
    await files.glob("**"),
    await files.grep({ pattern: "." }),
  ]);
}

/** What one user, session or agent has and the others have not. */
export function namespaceCases(it: ContractTest): void {
  describe("a namespace", () => {
    it("keeps its files to itself", async ({ files, second }) => {
      const [ann, bob] = [files.within(user("ann")), second.within(user("bob"))];
      await ann.write("notes.md", "from ann");
      expect(await textOf(second.within(user("ann")), "notes.md")).toBe("from ann");
      for (const other of [bob, files, files.within({ scope: "session", id: "ann" })]) {
        expect(await refusal(other.read("notes.md"))).toBe("not_found");
        expect(await everything(other)).not.toContain("ann");
      }
      await bob.write("notes.md", "from bob");
      expect(await textOf(ann, "notes.md")).toBe("from ann");
    });

    it("is empty at first", async ({ files }) => {
      const ann = files.within(user("ann"));
      expect(await ann.list("")).toEqual({ entries: [], cut: false });
      expect(await ann.stat("")).toMatchObject({ type: "directory" });
      expect(await ann.glob("**")).toEqual({ paths: [] });
      expect(await ann.grep({ pattern: "x" })).toEqual({ matches: [], tooLarge: 0 });
      expect(await refusal(ann.read("x"))).toBe("not_found");
    });

    it("cannot be reached by a path from another", async ({ files }) => {
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
          expect(["outside_workspace", "invalid_path"]).toContain(await refusal(files_.read(path)));
        }
        for (const path of ["user-bob/secret.txt", "bob/secret.txt"]) {
          expect(await refusal(files_.read(path))).toBe("not_found");
        }
      }
    });

    it("is another one for every id", async ({ files }) => {
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
        "x".repeat(128),
        "X".repeat(128),
        "X".repeat(127),
        "😀".repeat(64),
        " ann",
        "ann ",
        "\n",
      );
      for (const id of ids) await files.within(user(id)).write("id", id);
      for (const id of ids) expect(await textOf(files.within(user(id)), "id")).toBe(id);
      expect(await files.list("")).toEqual({ entries: [], cut: false });
    });

    it("needs a usable id", ({ files }) => {
      for (const id of ["", "x".repeat(129), "\ud800"]) {
        expect(() => files.within(user(id))).toThrow(
          expect.objectContaining({ code: "invalid_namespace" }),
        );
      }
    });

    const open = it.extend({ options: { readOnly: ["agents"], limits: patient } });

    open("reads what all share and never writes it", async ({ files }) => {
      await files.write("AGENTS.md", "persona");
      await files.write("knowledge/facts.md", "fact");
      await files.write("private.md", "of nobody");
      const ann = files.within(user("ann"));
      expect(await textOf(ann, "AGENTS.md")).toBe("persona");
      expect(await textOf(ann, "knowledge/facts.md")).toBe("fact");
      expect(await refusal(ann.read("private.md"))).toBe("not_found");
      for (const path of ["AGENTS.md", "agents.MD", "knowledge/facts.md", "knowledge/more.md"]) {
        expect(await refusal(ann.write(path, "x")), path).toBe("read_only");
        expect(await refusal(ann.remove(path)), path).toBe("read_only");
      }
      await ann.write("mine.md", "fact of mine");
      expect(pathsOf((await ann.list("")).entries)).toEqual(["AGENTS.md", "knowledge", "mine.md"]);
      expect((await ann.glob("**/*.md")).paths).toEqual([
        "AGENTS.md",
        "knowledge/facts.md",
        "mine.md",
      ]);
      expect(pathsOf((await ann.grep({ pattern: "fact" })).matches)).toEqual([
        "knowledge/facts.md",
        "mine.md",
      ]);
      expect((await ann.glob("*", { path: "knowledge" })).paths).toEqual(["knowledge/facts.md"]);
    });
  });

  describe("a directory as a root", () => {
    it("is all that there is, and can be read from above", async ({ files, second }) => {
      await files.write("parent.md", "of the parent");
      const child = files.below("agents/child/workspace");
      expect(await child.list("")).toEqual({ entries: [], cut: false });
      await child.write("notes.md", "of the child");
      expect(await textOf(second, "agents/child/workspace/notes.md")).toBe("of the child");
      expect(await textOf(second.below("agents/child/workspace"), "notes.md")).toBe("of the child");
      const above = "agents/child/workspace/notes.md";
      expect(await refusal(files.write(above, "x"))).toBe("read_only");
      expect(await refusal(child.read("parent.md"))).toBe("not_found");
      expect(await refusal(child.read("../../../parent.md"))).toBe("outside_workspace");
      expect(await everything(child)).not.toContain("parent");
      expect(await refusal(child.write("skills/x", "x"))).toBe("read_only");
    });

    it("is another one in every namespace, and shares what stands in it", async ({ files }) => {
      const child = files.below("agents/child/workspace");
      await child.write("AGENTS.md", "persona of the child");
      await files.write("AGENTS.md", "persona of the parent");
      const [ann, bob] = [user("ann"), user("bob")];
      await child.within(ann).write("notes.md", "from ann");
      expect(await textOf(files.within(ann), "agents/child/workspace/notes.md")).toBe("from ann");
      expect(await textOf(files.within(ann).below("agents/child/workspace"), "notes.md")).toBe(
        "from ann",
      );
      expect(await textOf(child.within(ann), "AGENTS.md")).toBe("persona of the child");
      expect(await everything(child.within(bob))).not.toContain("from ann");
      expect(await everything(child)).not.toContain("from ann");
      expect(await everything(files.within(bob))).not.toContain("from ann");
    });

    it("may be in another such directory", async ({ files }) => {
      const grandchild = files.below("a").below("b");
      await grandchild.write("c", "1");
      expect(await textOf(files, "a/b/c")).toBe("1");
      expect(await refusal(grandchild.read("../c"))).toBe("outside_workspace");
      expect(() => files.below("../x")).toThrow(
        expect.objectContaining({ code: "outside_workspace" }),
      );
    });
  });
}
