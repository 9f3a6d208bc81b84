import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { scriptedModel } from "../../testing.ts";
import { ReActAgent } from "../react-agent.ts";
import {
  decide,
  inheritedRules,
  type Permissions,
  permissionsProblem,
  type Rule,
} from "./permission.ts";

const allows = (rule: Rule, name: string, input: unknown = {}) =>
  decide([{ allow: [rule] }], name, input) === "allow";

describe("a rule", () => {
  it.each([
    ["read_file", "read_file", true],
    ["read_file", "read_files", false],
    ["*_file", "read_file", true],
    ["file_*", "file_", true],
    ["*", "anything", true],
    ["*", "", true],
    ["re?d", "read", true],
    ["re?d", "red", false],
    ["a*b*c", "a__b_b__c", true],
    ["a*b*c", "a__c__b", false],
    ["**a**", "bab", true],
    ["", "a", false],
    ["a.c", "abc", false],
    ["[a-z]", "b", false],
    ["READ", "read", false],
  ])("%j matches %j: %s", (glob, name, fits) => {
    expect(allows(glob, name)).toBe(fits);
  });

  it("matches when all its input fields match", () => {
    const rule = { tool: "write_*", input: { path: "/tmp/*", mode: "w" } };
    expect(allows(rule, "write_file", { path: "/tmp/a", mode: "w" })).toBe(true);
    expect(allows(rule, "write_file", { path: "/etc/a", mode: "w" })).toBe(false);
    expect(allows(rule, "write_file", { path: "/tmp/a" })).toBe(false);
    expect(allows(rule, "read_file", { path: "/tmp/a", mode: "w" })).toBe(false);
  });

  it("compares other values as JSON, and only own fields", () => {
    expect(allows({ tool: "*", input: { n: "42" } }, "a", { n: 42 })).toBe(true);
    expect(allows({ tool: "*", input: { on: "true" } }, "a", { on: true })).toBe(true);
    expect(allows({ tool: "*", input: { o: '*"a"*' } }, "a", { o: { k: "a" } })).toBe(true);
    expect(allows({ tool: "*", input: { constructor: "*" } }, "a", {})).toBe(false);
    for (const input of [undefined, null, "text", 3]) {
      expect(allows({ tool: "*", input: { length: "*" } }, "a", input)).toBe(false);
    }
  });

  it("denies an array when one entry matches, and allows it when all do", () => {
    const rule = { tool: "*", input: { paths: "/tmp/*" } };
    const mixed = { paths: ["/tmp/a", "/etc/passwd"] };
    expect(allows(rule, "a", mixed)).toBe(false);
    expect(allows(rule, "a", { paths: ["/tmp/a", "/tmp/b"] })).toBe(true);
    expect(allows(rule, "a", { paths: [] })).toBe(false);
    expect(decide([{ deny: [rule] }], "a", mixed)).toBe("deny");
    expect(decide([{ ask: [rule] }], "a", mixed)).toBe("ask");
  });
});

describe("invalid rules", () => {
  it.each([
    [null, "permissions must be an object"],
    [["rm"], "permissions must be an object"],
    [{ denied: ["rm"] }, "permissions.denied does not exist"],
    [{ deny: "rm" }, "permissions.deny must be an array"],
    [{ ask: ["a", null] }, "permissions.ask[1] must be a rule"],
    [{ deny: [/rm/] }, "permissions.deny[0] must be a rule"],
    [{ deny: [""] }, "permissions.deny[0] must be a rule"],
    [{ allow: [{ tool: 5 }] }, "permissions.allow[0] must be a rule"],
    [{ allow: [{ tool: "a", input: "b" }] }, "permissions.allow[0] must be a rule"],
    [{ allow: [{ tool: "a", input: { b: /c/ } }] }, "permissions.allow[0] must be a rule"],
  ])("%j is rejected", (permissions, problem) => {
    const make = () =>
      new ReActAgent({ name: "a", model: scriptedModel([]), permissions: permissions as never });
    expect(make).toThrow(expect.objectContaining({ code: "invalid_settings" }));
    expect(make).toThrow(problem);
  });

  it("do not include empty rules", () => {
    for (const permissions of [undefined, {}, { deny: [] }, { ask: [{ tool: "a" }] }]) {
      expect(permissionsProblem(permissions)).toBeUndefined();
    }
  });
});

describe("decide", () => {
  it("prefers deny to ask to allow, in any layer", () => {
    const all: Permissions = { allow: ["*"], ask: ["file_*"], deny: ["file_delete"] };
    expect(decide([all], "now", {})).toBe("allow");
    expect(decide([all], "file_read", {})).toBe("ask");
    expect(decide([all], "file_delete", {})).toBe("deny");
    expect(decide([{ allow: ["*"] }, { deny: ["*"] }], "a", {})).toBe("deny");
    expect(decide([{ deny: ["*"] }, { allow: ["*"] }], "a", {})).toBe("deny");
    expect(decide([{ ask: ["*"] }, { allow: ["*"] }], "a", {})).toBe("ask");
  });

  it("is undefined when no rule matches", () => {
    expect(decide([], "a", {})).toBeUndefined();
    expect(decide([{}, { allow: ["b"] }], "a", {})).toBeUndefined();
  });

  it("descendants inherit ask and deny rules", () => {
    const layers = [{ allow: ["*"], deny: ["a"] }, { ask: ["b"] }, { deny: [{ tool: "c" }] }];
    expect(inheritedRules(layers)).toEqual({ ask: ["b"], deny: ["a", { tool: "c" }] });
    expect(inheritedRules([])).toEqual({ ask: [], deny: [] });
  });
});

it("globs match like regular expressions", () => {
  const piece = fc.constantFrom("a", "b", "*", "?", ".");
  const letter = fc.constantFrom("a", "b", ".");
  const words = (part: fc.Arbitrary<string>) =>
    fc.array(part, { maxLength: 8 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(words(piece), words(letter), (glob, text) => {
      const pattern = glob.replaceAll(".", "\\.").replaceAll("*", ".*").replaceAll("?", ".");
      expect(allows(glob, text)).toBe(new RegExp(`^${pattern}$`).test(text));
    }),
  );
});

it("matching time is bounded for any text", () => {
  const text = "a".repeat(500_000);
  const started = performance.now();
  expect(allows({ tool: "*", input: { text: `${"*a".repeat(30)}*b` } }, "x", { text })).toBe(false);
  expect(performance.now() - started).toBeLessThan(2_000);
});
