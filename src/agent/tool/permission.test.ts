import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { scriptedModel } from "../../testing/index.ts";
import { ReActAgent } from "../react-agent.ts";
import {
  decide,
  denyRules,
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
  ])("%j about %j: %s", (glob, name, fits) => {
    expect(allows(glob, name)).toBe(fits);
  });

  it("may be about fields of the input, all of them", () => {
    const rule = { tool: "write_*", input: { path: "/tmp/*", mode: "w" } };
    expect(allows(rule, "write_file", { path: "/tmp/a", mode: "w" })).toBe(true);
    expect(allows(rule, "write_file", { path: "/etc/a", mode: "w" })).toBe(false);
    expect(allows(rule, "write_file", { path: "/tmp/a" })).toBe(false);
    expect(allows(rule, "read_file", { path: "/tmp/a", mode: "w" })).toBe(false);
  });

  it("sees numbers, truths and objects as JSON, and no field that is not the input's own", () => {
    expect(allows({ tool: "*", input: { n: "42" } }, "a", { n: 42 })).toBe(true);
    expect(allows({ tool: "*", input: { on: "true" } }, "a", { on: true })).toBe(true);
    expect(allows({ tool: "*", input: { o: '*"a"*' } }, "a", { o: { k: "a" } })).toBe(true);
    expect(allows({ tool: "*", input: { constructor: "*" } }, "a", {})).toBe(false);
    for (const input of [undefined, null, "text", 3]) {
      expect(allows({ tool: "*", input: { length: "*" } }, "a", input)).toBe(false);
    }
  });

  it("about a list denies when one entry fits and allows when all do", () => {
    const rule = { tool: "*", input: { paths: "/tmp/*" } };
    const mixed = { paths: ["/tmp/a", "/etc/passwd"] };
    expect(allows(rule, "a", mixed)).toBe(false);
    expect(allows(rule, "a", { paths: ["/tmp/a", "/tmp/b"] })).toBe(true);
    expect(allows(rule, "a", { paths: [] })).toBe(false);
    expect(decide([{ deny: [rule] }], "a", mixed)).toBe("deny");
    expect(decide([{ ask: [rule] }], "a", mixed)).toBe("ask");
  });
});

describe("what cannot be rules", () => {
  it.each([
    [null, "permissions are not an object"],
    [["rm"], "permissions are not an object"],
    [{ denied: ["rm"] }, "permissions.denied is not known"],
    [{ deny: "rm" }, "permissions.deny is not a list"],
    [{ ask: ["a", null] }, "permissions.ask[1] is not a rule"],
    [{ deny: [/rm/] }, "permissions.deny[0] is not a rule"],
    [{ deny: [""] }, "permissions.deny[0] is not a rule"],
    [{ allow: [{ tool: 5 }] }, "permissions.allow[0] is not a rule"],
    [{ allow: [{ tool: "a", input: "b" }] }, "permissions.allow[0] is not a rule"],
    [{ allow: [{ tool: "a", input: { b: /c/ } }] }, "permissions.allow[0] is not a rule"],
  ])("%j is refused", (permissions, problem) => {
    const make = () =>
      new ReActAgent({ name: "a", model: scriptedModel([]), permissions: permissions as never });
    expect(make).toThrow(expect.objectContaining({ code: "invalid_settings" }));
    expect(make).toThrow(problem);
  });

  it("is not what is only empty", () => {
    for (const permissions of [undefined, {}, { deny: [] }, { ask: [{ tool: "a" }] }]) {
      expect(permissionsProblem(permissions)).toBeUndefined();
    }
  });
});

describe("rules together", () => {
  it("deny beats ask beats allow, in any layer", () => {
    const all: Permissions = { allow: ["*"], ask: ["file_*"], deny: ["file_delete"] };
    expect(decide([all], "now", {})).toBe("allow");
    expect(decide([all], "file_read", {})).toBe("ask");
    expect(decide([all], "file_delete", {})).toBe("deny");
    expect(decide([{ allow: ["*"] }, { deny: ["*"] }], "a", {})).toBe("deny");
    expect(decide([{ deny: ["*"] }, { allow: ["*"] }], "a", {})).toBe("deny");
    expect(decide([{ ask: ["*"] }, { allow: ["*"] }], "a", {})).toBe("ask");
  });

  it("may say nothing", () => {
    expect(decide([], "a", {})).toBeUndefined();
    expect(decide([{}, { allow: ["b"] }], "a", {})).toBeUndefined();
  });

  it("only what is denied is inherited", () => {
    const layers = [{ allow: ["*"], deny: ["a"] }, { ask: ["b"] }, { deny: [{ tool: "c" }] }];
    expect(denyRules(layers)).toEqual({ deny: ["a", { tool: "c" }] });
    expect(denyRules([])).toEqual({ deny: [] });
  });
});

it("globs mean what regular expressions mean", () => {
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

it("no text makes a rule slow", () => {
  const text = "a".repeat(500_000);
  const started = performance.now();
  expect(allows({ tool: "*", input: { text: `${"*a".repeat(30)}*b` } }, "x", { text })).toBe(false);
  expect(performance.now() - started).toBeLessThan(2_000);
});
