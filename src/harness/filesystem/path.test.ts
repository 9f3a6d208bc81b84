import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isDeep } from "../../testing/deep.ts";
import {
  nameProblem,
  namespaceDirectory,
  namespaceOf,
  resolveForWriting,
  resolvePath,
  type View,
  viewOf,
} from "./path.ts";

const root = viewOf(undefined, [], ["/srv/files"]);
const child = viewOf(undefined, ["agents", "x"], ["/srv/files/agents/x"]);
const runs = isDeep ? 1_000_000 : 20_000;

describe("resolvePath", () => {
  it("normalizes a path", () => {
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

  it("resolves below the base of the view", () => {
    expect(resolvePath("a.md", child)).toMatchObject({ base: ["agents", "x"], names: ["a.md"] });
    expect(resolvePath("skills/x", child)).toMatchObject({ writable: false });
    expect(resolvePath("MEMORY.md", child)).toMatchObject({ writable: true });
  });

  it.each(["AGENTS.md", "knowledge", "skills", "subagents", "tools.json", "agents"])(
    "makes %s read-only in every spelling",
    (name) => {
      for (const path of [name, `${name}/x`, `./a/../${name}`, name.toUpperCase()]) {
        expect(resolvePath(path, root).writable, path).toBe(false);
      }
      // A nested AGENTS.md may be that of a subagent.
      expect(resolvePath(`notes/${name}`, root).writable).toBe(name !== "AGENTS.md");
    },
  );

  it("reserves the names of whiteouts", () => {
    expect(() => resolvePath("a/.wh.b", root)).toThrow('".wh.b" is reserved.');
    expect(() => resolvePath(".WH.b/c", root)).toThrow("is reserved");
  });

  it("accepts an absolute path only for the files of the view", () => {
    expect(resolvePath("/srv/files/a.md", root).path).toBe("a.md");
    expect(resolvePath("/srv/files", root).path).toBe("");
    expect(resolvePath("/srv/files/agents/x/a.md", child).path).toBe("a.md");
    const refused: [string, View][] = [
      ["/srv/files/a.md", child],
      ["/srv/files/agents/y/a.md", child],
      ["/srv/files/agents/x/../y/a.md", child],
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

  it("throws errors that do not mention the machine", () => {
    expect(() => resolvePath("/srv/x", child)).toThrow('"/srv/x" is outside the workspace.');
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

  it("resolves every string below its base, or throws", () => {
    const property = fc.property(paths, fc.constantFrom(root, child), (path, view) => {
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
      expect(place.base).toEqual(view.base);
      // The normalized path resolves to the same place.
      expect(resolvePath(place.path, view)).toEqual(place);
    });
    fc.assert(property, { numRuns: runs });
  });
});

const ids = fc.oneof(
  fc.string({ unit: "binary", minLength: 1, maxLength: 40 }),
  fc.string({ unit: fc.constantFrom("a", "A", "=", "6", "1", "-", ".", "/", "é"), minLength: 1 }),
);

it("gives two ids two directories, on every disk", () => {
  const property = fc.property(ids, ids, (one, other) => {
    fc.pre(one !== other && one.length <= 256 && other.length <= 256);
    const names = [one, other].map((id) => namespaceDirectory({ scope: "user", id }));
    expect(names[0]?.toLowerCase()).not.toBe(names[1]?.toLowerCase());
    for (const name of names) {
      expect(name).toMatch(/^user-[a-z0-9_=-]+$/);
      expect(nameProblem(name)).toBeUndefined();
    }
  });
  fc.assert(property, { numRuns: 5_000 });
});

it("uses a plain id as the directory name, so that people can find it", () => {
  expect(namespaceDirectory({ scope: "user", id: "ann-1" })).toBe("user-ann-1");
  expect(namespaceDirectory({ scope: "session", id: "Ann" })).toBe("session-=41nn");
});

it("selects the namespace by scope", () => {
  const who = { userId: "ann", sessionId: "s1", agentId: "helper" };
  expect(namespaceOf("user", who)).toEqual({ scope: "user", id: "ann" });
  expect(namespaceOf("session", who)).toEqual({ scope: "session", id: "s1" });
  expect(namespaceOf("agent", who)).toEqual({ scope: "agent", id: "helper" });
  expect(namespaceOf("global", who)).toBeUndefined();
  expect(namespaceOf("user", { sessionId: "s1", agentId: "helper" })).toBeUndefined();
});
