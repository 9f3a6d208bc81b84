import { expect, it } from "vitest";
import { type CommandName, helpFor, numberFlag, readArguments } from "./arguments.ts";

it("is a chat without a command", () => {
  expect(readArguments([])).toEqual({ command: "chat", operands: [], flags: {} });
  expect(readArguments(["--session", "s", "--yes"])).toMatchObject({
    command: "chat",
    flags: { session: "s", yes: true },
  });
});

it("reads commands, operands and flags in any order", () => {
  expect(readArguments(["run", "Why", "--json", "so?", "--model=a:b"])).toEqual({
    command: "run",
    operands: ["Why", "so?"],
    flags: { json: true, model: "a:b" },
  });
  expect(readArguments(["serve", "--demo", "--no-open"])).toMatchObject({
    flags: { demo: true, open: false },
  });
  expect(readArguments(["run", "--", "--json"])).toMatchObject({ operands: ["--json"], flags: {} });
});

it.each([
  [["serv"], 'There is no command "serv".', "Did you mean rivulet serve?"],
  [["xyzzy"], 'There is no command "xyzzy".', "rivulet --help lists the commands."],
  [
    ["Why so?"],
    '"Why so?" is not a command.',
    'To ask an agent, write: rivulet run "your question".',
  ],
  [["run", "--jsno", "x"], "rivulet run has no flag --jsno.", "Did you mean --json?"],
  [
    ["tasks", "--speed", "2"],
    "rivulet tasks has no flag --speed.",
    "rivulet tasks --help lists the flags.",
  ],
  [["serve", "--port"], "--port needs a value.", "Write --port <number>."],
  [["run", "--json=1", "x"], "--json takes no value.", "Write --json."],
  [
    ["watch", "a", "b"],
    "rivulet watch takes one argument, got 2.",
    "Put text with spaces in quotes.",
  ],
])("rejects %j", (args, message, hint) => {
  expect(() => readArguments(args)).toThrow(
    expect.objectContaining({ code: "invalid_arguments", message, hint }),
  );
});

it("explains each command with all its flags", () => {
  const names: readonly CommandName[] = ["run", "serve", "init", "tasks", "watch", "replay"];
  for (const name of names) {
    expect(helpFor(undefined, 80)).toContain(`rivulet ${name}`);
    const { help = "" } = readArguments([name, "--help"]);
    expect(help).toContain(`rivulet ${name}`);
    expect(readArguments(["help", name]).help).toBe(help);
    for (const line of help.split("\n")) expect(line.length).toBeLessThanOrEqual(100);
  }
  expect(helpFor("run", 80)).toContain("130 cancelled");
});

it("reads numbers within their range", () => {
  expect(numberFlag("port", undefined, 10)).toBeUndefined();
  expect(numberFlag("port", "8", 10)).toBe(8);
  for (const text of ["", "x", "-1", "11"]) expect(() => numberFlag("port", text, 10)).toThrow();
});
