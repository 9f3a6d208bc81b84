import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { resolveForWriting, resolvePath, type View, viewOf } from "./path.ts";

const root: View = { ...viewOf({}), absolute: ["/srv/files"] };
const ann: View = {
  ...viewOf({}, { namespace: { scope: "user", id: "ann" } }),
  absolute: ["/srv/files/.rivulet/namespaces/user-ann"],
};
const ownOfAnn = [".rivulet", "namespaces", "user-ann"];
const runs = process.env.RIVULET_DEEP === "1" ? 1_000_000 : 20_000;

describe("resolvePath", () => {
  it("gives the names of a path, without its detours", () => {
    expect(resolvePath("./a//b/../c.md/", root)).toEqual({
      path: "a/c.md",
      base: [],
      names: ["a", "c.md"],
      writable: true,
    });
    expect(resolvePath("", root).names).toEqual([]);
    expect(resolvePath("/", root).names).toEqual([]);
    expect(resolvePath("a/..", root).path).toBe("");
  });

  it("puts what is a user's own below their namespace, and what is shared at the root", () => {
    expect(resolvePath("a.md", ann)).toMatchObject({ base: ownOfAnn, names: ["a.md"] });
    expect(resolvePath("skills/x", ann)).toMatchObject({ base: [], writable: false });
    expect(resolvePath("agents.md", ann)).toMatchObject({ base: [], writable: false });
    expect(resolvePath("agents/x", ann)).toMatchObject({ base: ownOfAnn, writable: false });
    expect(resolvePath("MEMORY.md", ann)).toMatchObject({ base: ownOfAnn, writable: true });
  });

  it("takes an absolute path only for what is the caller's own", () => {
    expect(resolvePath("/srv/files/a.md", root).path).toBe("a.md");
    expect(resolvePath("/srv/files", root).path).toBe("");
    expect(resolvePath("/srv/files/.rivulet/namespaces/user-ann/a.md", ann).path).toBe("a.md");
    const refused: [string, View][] = [
      ["/srv/files/a.md", ann],
      ["/srv/files/.rivulet/namespaces/user-bob/a.md", ann],
      ["/srv/files/.rivulet/namespaces/user-ann/../user-bob/a.md", ann],
      ["/srv/files-evil/a.md", root],
      ["/srv/files/../x", root],
      ["/srv", root],
      ["//srv/files/a.md", root],
    ];
    for (const [path, view] of refused) {
      expect(() => resolvePath(path, view), path).toThrow(
        expect.objectContaining({ code: "outside_workspace" }),
      );
    }
  });

  it("says what is wrong without a word about the machine", () => {
    expect(() => resolvePath("/srv/x", ann)).toThrow('"/srv/x" is outside the workspace.');
    expect(() => resolvePath("a/b:c", root)).toThrow('"a/b:c" cannot be used: "b:c" has a colon.');
    expect(() => resolveForWriting("Skills/x", root)).toThrow('"Skills/x" is read-only.');
  });

  const pieces = fc.constantFrom("..", ".", "/", "//", "a", "skills", "%2e", "\0", "\\", "~", " ");
  const paths = fc.oneof(
    fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join("")),
    fc
      .array(fc.oneof(pieces, fc.string({ unit: "binary" })), { maxLength: 6 })
      .map((p) => p.join("/")),
  );

  it("leads every string below where it begins, or nowhere", () => {
    const property = fc.property(paths, fc.constantFrom(root, ann), (path, view) => {
      let place: ReturnType<typeof resolvePath>;
      try {
        place = resolvePath(path, view);
      } catch (error) {
        expect((error as { code: string }).code).toMatch(/^(invalid_path|outside_workspace)$/);
        return;
      }
      for (const name of place.names) {
        expect(name).not.toMatch(/^\.{0,2}$|[/\\\0]/);
        expect(path).toContain(name);
      }
      expect([[], view.own]).toContainEqual(place.base);
      if (place.base.length < view.own.length) expect(place.writable).toBe(false);
      // What is shown to a model is a path that leads to the same place.
      expect(resolvePath(place.path, view)).toEqual(place);
    });
    fc.assert(property, { numRuns: runs });
  });
});
