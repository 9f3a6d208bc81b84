import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { longText } from "./support/config.ts";
import { openTerminal, type TestTerminal } from "./support/terminal.ts";

const program = [process.execPath, resolve("src/cli/main.ts")];
const config = ["--config", resolve("test/cli/support/config.ts")];
const directory = mkdtempSync(join(tmpdir(), "rivulet-terminal-"));
const open: TestTerminal[] = [];
afterEach(() => {
  for (const terminal of open.splice(0)) terminal.kill();
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function start(
  columns: number,
  rows: number,
  args: readonly string[],
  env = {},
  cwd = mkdtempSync(join(directory, "t")),
): TestTerminal {
  const terminal = openTerminal(columns, rows, [...program, ...args], { cwd, env });
  open.push(terminal);
  return terminal;
}
const chat = (columns = 80, rows = 24, ...args: readonly string[]) =>
  start(columns, rows, [...config, ...args]);

/** Without the breaks that a narrow screen needs. */
const flat = (text: string) => text.replace(/\s+/g, "");
const count = (lines: readonly string[], pattern: RegExp) =>
  lines.filter((line) => pattern.test(line)).length;

describe.each([
  [80, 24],
  [120, 40],
  [40, 20],
])("a terminal of %i columns and %i rows", (columns, rows) => {
  it("shows a team at work and leaves only its messages, the answer and the totals", async () => {
    const terminal = chat(columns, rows);
    await terminal.shows("Enter sends");
    terminal.type("Ask the team.\r");
    await terminal.shows(/● +helper/);
    await terminal.shows("Enter steers");
    terminal.type("\t");
    await terminal.shows("I look.");
    terminal.type("\t");
    await terminal.shows(/3 agents · .* tokens in/);
    terminal.type("/quit\r");
    expect(await terminal.ended).toBe(0);
    const lines = terminal.scrollback();
    const text = flat(lines.join("\n"));
    expect(text).toContain(flat("I ask two helpers."));
    expect(text).toContain(flat(`Done.\n${longText}`));
    expect(lines).toContain(`${"=".repeat(columns - 1)}|`);
    expect(count(lines, /^✓ +lead/)).toBe(1);
    expect(count(lines, /^✓ +helper/)).toBe(2);
    // Nothing of the live area stays.
    expect(count(lines, /^●|Enter (sends|steers)|I look\./)).toBe(0);
    expect(text).toMatch(/Continuewith:rivulet--config\S+--session\w{8}$/);
  });

  it("asks with the whole arguments, and leaves no line of the question", async () => {
    const terminal = chat(columns, rows);
    await terminal.shows("Enter sends");
    terminal.type("remove it\r");
    await terminal.shows("[a]lways");
    const asked = terminal.scrollback();
    expect(flat(asked.join("\n"))).toContain(flat(`path: a.txt note: ${longText}`));
    expect(asked).toContain("lead wants to call remove");
    terminal.type("n");
    await terminal.shows("Why not?");
    terminal.type("Not this file.\r");
    await terminal.shows(/tokens in/);
    terminal.type("\x04");
    expect(await terminal.ended).toBe(0);
    const lines = terminal.scrollback();
    expect(lines).toContain("✗ remove denied: Not this file.");
    expect(count(lines, /Allow it|\[a\]lways|Why not|^◆/)).toBe(0);
    expect(flat(lines.join("\n"))).toContain(flat(`Done.\n${longText}`));
  });
});

it("approves, approves for the session, and runs edited arguments", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("remove it\r");
  await terminal.shows("[a]lways");
  terminal.type("e");
  await terminal.shows("as JSON");
  terminal.type("\x15not json\r");
  await terminal.shows("are not JSON");
  await terminal.shows("[a]lways");
  terminal.type("e");
  await terminal.shows("as JSON");
  terminal.type('\x15{"path":"b.txt"}\r');
  await terminal.shows("remove approved with changes");
  await terminal.shows(/tokens in/);
  terminal.type("remove another\r");
  await terminal.shows("[a]lways");
  terminal.type("a");
  await terminal.shows("✓ remove approved");
  await terminal.shows("Enter sends");
  terminal.type("/tree\r");
  await terminal.shows("removed a.txt");
  terminal.type("remove again\r");
  await terminal.shows(/> remove again[\s\S]*Done\./);
  expect(count(terminal.scrollback(), /wants to call/)).toBe(2);
});

it("steers a run, and cancels it with Ctrl-C", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("slow please\r");
  await terminal.shows("Slowly");
  terminal.type("hurry up\r");
  await terminal.shows("> hurry up");
  terminal.type("\x03");
  await terminal.shows("Cancelling.");
  await terminal.shows("The run was cancelled.");
  terminal.type("hello\r");
  await terminal.shows("things.");
  terminal.type("/quit\r");
  expect(await terminal.ended).toBe(0);
});

it("cancels a background task after the answer with Ctrl-C", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("Look in the background.\r");
  await terminal.shows(/You said[\s\S]*helper background: I look\./);
  await terminal.shows("Ctrl-C cancels");
  terminal.type("\x03");
  await terminal.shows("Cancelling. Ctrl-C again leaves at once.");
  await terminal.shows("Ctrl-D leaves"); // no agent works any more
  expect(count(terminal.screen(), /I look\./)).toBe(0);
  terminal.type("/tree\r");
  await terminal.shows(/helper.*cancelled/);
  terminal.type("\x04");
  expect(await terminal.ended).toBe(0);
});

it("empties the line with Ctrl-C, and leaves when it is pressed twice more", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("not this");
  await terminal.shows("> not this");
  terminal.type("\x03");
  await terminal.shows((lines) => count(lines, /not this/) === 0);
  terminal.type("\x03");
  await terminal.shows("Ctrl-C again leaves.");
  terminal.type("\x03");
  expect(await terminal.ended).toBe(130);
});

it("leaves at once with a second Ctrl-C, with the terminal as it was", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("slow please\r");
  await terminal.shows("Slowly");
  terminal.type("\x03\x03");
  expect(await terminal.ended).toBe(130);
  // The cursor is visible again, and pasting is as before.
  expect(terminal.raw().lastIndexOf("\x1b[?25h")).toBeGreaterThan(
    terminal.raw().lastIndexOf("\x1b[?25l"),
  );
  expect(terminal.raw()).toContain("\x1b[?2004l");
});

it("lists and resumes sessions, changes the model, and names near commands", async () => {
  const terminal = chat(80, 24, "--session", "first");
  await terminal.shows("Enter sends");
  terminal.type("hello\r");
  await terminal.shows("You said 1 things.");
  terminal.type("/new\r");
  await terminal.shows(/^Session \w{8}\.$/m);
  terminal.type("hello again\r");
  await terminal.shows(/hello again[\s\S]*You said 1 things\./);
  terminal.type("/sessions\r");
  await terminal.shows(/2 +first/);
  terminal.type("/resume 2\r");
  await terminal.shows("Session first.");
  terminal.type("more\r");
  await terminal.shows("You said 2 things.");
  terminal.type("/modle\r");
  await terminal.shows("Did you mean /model?");
  terminal.type("/model demo:analyst\r");
  await terminal.shows("use demo:analyst");
  terminal.type("hi\r");
  await terminal.shows("Hello! Ask me a question");
  terminal.type("/kill\r");
  await terminal.shows("Only the demo has a server to kill");
  terminal.type("fail now\r");
  terminal.type("/help\r");
  await terminal.shows("list the commands");
});

it("edits the line, recalls earlier ones and takes a paste of several lines", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("hellx\x7fo\r");
  await terminal.shows("> hello");
  await terminal.shows("You said 1 things.");
  terminal.type("\x1b[A\r");
  await terminal.shows("You said 2 things.");
  terminal.type("\x1b[200~one\rtwo\x1b[201~");
  await terminal.shows(/> one\n +two/);
  terminal.type("\r");
  await terminal.shows("You said 3 things.");
});

it("keeps its place when the terminal changes its size", async () => {
  const terminal = chat(80, 24);
  await terminal.shows("Enter sends");
  terminal.type("slow please\r");
  await terminal.shows("Slowly");
  /** One frame, and as wide as the terminal: the program knows its size. */
  const isWhole = (columns: number) => (lines: readonly string[]) => {
    const [agent = "", ...more] = lines.filter((line) => line.startsWith("● lead"));
    return agent.length === columns && more.length === 0 && count(lines, /Enter steers/) === 1;
  };
  for (const [columns, rows] of [
    [50, 20],
    [100, 30],
    [40, 12],
  ] as const) {
    await terminal.resize(columns, rows);
    await terminal.shows(isWhole(columns));
  }
  terminal.type("x");
  await terminal.shows("> x");
  await terminal.shows(isWhole(40));
});

it("runs one prompt and ends with its exit code", async () => {
  const terminal = start(80, 24, ["run", ...config, "--session", "s", "hello"]);
  expect(await terminal.ended).toBe(0);
  const lines = terminal.scrollback();
  expect(lines).toContain("You said 1 things.");
  expect(flat(lines.join("\n"))).toMatch(/Continuewith:rivulet--config\S+--sessions$/);
  const failing = start(80, 24, ["run", ...config, "fail"]);
  expect(await failing.ended).toBe(1);
  expect(failing.scrollback().join("\n")).toContain("The model broke.");
});

it("plays a recorded run and writes no colour with NO_COLOR", async () => {
  const file = resolve("examples/recorded-run.jsonl");
  const terminal = start(80, 24, ["replay", "--speed", "50", file], { NO_COLOR: "1" });
  expect(await terminal.ended).toBe(0);
  expect(
    terminal
      .raw()
      .split("\x1b")
      .filter((part) => /^\[[\d;]*m/.test(part)),
  ).toEqual([]);
  expect(count(terminal.scrollback(), /^✓ +fact-checker/)).toBe(1);
  expect(count(terminal.scrollback(), /^●/)).toBe(0);
});

it("goes back from the arguments and the reason with Esc, and moves between rows", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("remove it\r");
  await terminal.shows("[a]lways");
  terminal.type("e");
  await terminal.shows("Esc goes back");
  terminal.type("\x1b");
  await terminal.shows("[a]lways");
  terminal.type("n");
  await terminal.shows("Why not?");
  terminal.type("\x1b");
  await terminal.shows("[a]lways");
  terminal.type("e");
  await terminal.shows("Esc goes back");
  terminal.type("x\x1b[A\x1b[B\x7f\r");
  await terminal.shows("✓ remove approved");
});

it("shows the end of a run that is cancelled at a question", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("remove it\r");
  await terminal.shows("[a]lways");
  terminal.type("\x03");
  await terminal.shows("The run was cancelled.");
  terminal.type("/quit\r");
  expect(await terminal.ended).toBe(0);
  const lines = terminal.scrollback();
  expect(lines).toContain("✗ remove cancelled");
  expect(lines.indexOf("✗ remove cancelled")).toBeLessThan(
    lines.findIndex((line) => line.startsWith("⊘ lead")),
  );
});

it("prints a warning above the live area, and no command for a session without messages", async () => {
  const folder = mkdtempSync(join(directory, "w"));
  const path = join(folder, "warns.ts");
  const team = JSON.stringify(resolve("test/cli/support/config.ts"));
  writeFileSync(
    path,
    `setTimeout(() => process.emitWarning("Mind the gap.", "RivuletWarning"), 500);
     export { default } from ${team};`,
  );
  const terminal = start(80, 24, ["--config", path]);
  await terminal.shows(/Mind the gap\.\n> *\nEnter sends/);
  terminal.type("\x04");
  expect(await terminal.ended).toBe(0);
  expect(terminal.scrollback().join("\n")).not.toContain("Continue with");
});

it("follows background agents while an approval waits, and counts their tokens", async () => {
  const terminal = chat();
  await terminal.shows("Enter sends");
  terminal.type("Do it meanwhile.\r");
  await terminal.shows("[a]lways");
  await terminal.shows(/✓ +helper/); // it works and ends beside the question
  terminal.type("y");
  await terminal.shows(/2 agents · .* tokens in/);
  terminal.type("\x04");
  expect(await terminal.ended).toBe(0);
  const lines = terminal.scrollback();
  // The total has the tokens of both agents, whose figures the last lines show.
  const used = lines.flatMap((line) => /^✓ .* (\d+) +[\d.]+s$/.exec(line)?.[1] ?? []).map(Number);
  const totals = /([\d,]+) tokens in · ([\d,]+) out/.exec(lines.join("\n"));
  const [input = 0, output = 0] = (totals ?? []).slice(1).map((it) => Number(it.replace(",", "")));
  expect(used).toHaveLength(2);
  expect(input + output).toBe((used[0] ?? 0) + (used[1] ?? 0));
});

it("shows what a run waits for, and removes the line when it continues", async () => {
  const cwd = mkdtempSync(join(directory, "t"));
  const session = ["--session", "shared"];
  const first = start(80, 24, [...config, ...session], {}, cwd);
  await first.shows("Enter sends");
  first.type("Be slow.\r");
  await first.shows("Slowly");
  const second = start(80, 24, ["run", ...config, ...session, "Next question."], {}, cwd);
  await second.shows("waiting for another task of this session");
  first.type("\x03");
  expect(await second.ended).toBe(0);
  expect(count(second.scrollback(), /waiting for/)).toBe(0);
  expect(count(second.scrollback(), /^You said \d things\./)).toBe(1);
});
