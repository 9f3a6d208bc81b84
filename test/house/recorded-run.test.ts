import { execFileSync, spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { readRecording } from "../../src/cli/recording.ts";
import { checkStream, emptyTree, reduce } from "../../src/protocol.ts";

const events = readRecording("examples/recorded-run.jsonl");

it("the recorded run is a legal stream and folds completely", () => {
  expect(checkStream(events)).toEqual([]);
  const tree = reduce(emptyTree(), events);
  expect(tree).toMatchObject({ gaps: [], ahead: [], unknown: 0, ignored: 0 });
  expect(tree.safeCursor).toBe(events.length - 1);
  expect(Object.values(tree.tasks).map(({ status }) => status)).toEqual(Array(4).fill("completed"));
});

const replay = ["src/cli/main.ts", "replay", "examples/recorded-run.jsonl"];

it("`rivulet replay` prints the run without a terminal", () => {
  const output = execFileSync(process.execPath, replay, { encoding: "utf8" });
  expect(output).toContain("[sess-rivers/researcher#2/fact-checker] is completed\n");
  expect(output).toContain("[sess-rivers] asks May I write rivers.md? → approve by ann\n");
  expect(output).toMatch(/\n {2}sess-rivers\/researcher#2\/fact-checker in +893 {2}out +57\n/);
});

it("`--json` prints the events of the run", () => {
  const output = execFileSync(process.execPath, [...replay, "--json"], { encoding: "utf8" });
  const printed = output.trimEnd().split("\n");
  expect(printed.map((line) => JSON.parse(line))).toEqual(events);
});

it("a missing recording prints one sentence, not a stack", () => {
  const args = ["src/cli/main.ts", "replay", "nowhere.jsonl"];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect(status).toBe(2);
  expect(stderr).toMatch(
    /^rivulet: Cannot read nowhere\.jsonl\. Pass a file with one event per line[^\n]*\n$/,
  );
});
