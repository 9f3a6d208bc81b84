import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { RivuletError } from "../base/error.ts";
import { type RunRecording, recordingOf, replayRecording } from "../harness/index.ts";
import { type Arguments, usageError } from "./arguments.ts";
import { findConfig, loadProject } from "./config.ts";
import type { Console } from "./console.ts";
import { findStored } from "./stored.ts";

/** `rivulet test from`: writes a test and its recording from a run of the store. */
export async function testCommand(
  { flags, operands: [action, id] }: Arguments,
  console: Console,
): Promise<number> {
  if (action !== "from")
    throw usageError(
      `There is no command test ${JSON.stringify(action ?? "").slice(0, 60)}.`,
      "Write: rivulet test from <task or session>.",
    );
  const config = findConfig(flags.config);
  if (config === undefined)
    throw new RivuletError("config_not_found", "There is no config in this folder.", {
      hint: "A test imports the agents of a config. Create one with rivulet init.",
    });
  const { store, agents } = await loadProject(flags, console.env);
  const { taskId, status } = await findStored(store, id);
  if (["queued", "in_progress"].includes(status))
    throw new RivuletError("agent_busy", `The task ${taskId} has not ended.`, {
      hint: "Wait for its end, or cancel it.",
    });
  const recorded = await recordingOf(store, taskId);
  const test = resolve(flags.out ?? join("test", `${nameOf(recorded)}.test.ts`));
  const recording = `${test.replace(/(\.test)?\.[cm]?[jt]s$/, "")}.recording.json`;
  const exists = [test, recording].find((path) => existsSync(path));
  if (exists !== undefined && !flags.force)
    throw new RivuletError("invalid_arguments", `${relative(".", exists)} exists already.`, {
      hint: "Pass --force to replace it, or --out with another name.",
    });
  // The first replay finds out what the models are given, and that the run can be repeated.
  const { recording: checked } = await replayRecording(agents, recorded);
  mkdirSync(dirname(test), { recursive: true });
  writeFileSync(recording, `${JSON.stringify(checked, null, 1)}\n`);
  writeFileSync(test, testText(checked, relative(dirname(test), config), basename(recording)));
  console.print(`created   ${relative(".", test)}`);
  console.print(`created   ${relative(".", recording)}`);
  console.print(`\nRun it    npx vitest run ${relative(".", test)}`);
  await store.close();
  return 0;
}

/** A file name from the first words of the question. */
function nameOf({ agent, tasks }: RunRecording): string {
  const words = questionOf(tasks)
    .toLowerCase()
    .match(/[a-z0-9]+/g) ?? [agent];
  return words.slice(0, 6).join("-").slice(0, 60);
}

function questionOf(tasks: RunRecording["tasks"]): string {
  const root = tasks.findLast(({ parentTaskId }) => parentTaskId === undefined);
  const [block] = root?.messages.find(({ metadata }) => metadata?.input === true)?.content ?? [];
  return block?.type === "text" ? block.text : "";
}

function testText(recording: RunRecording, config: string, file: string): string {
  const { agent, runs, tasks } = recording;
  const paths = runs.at(-1)?.agents.map(({ path }) => path) ?? [];
  const [question = ""] = questionOf(tasks).split("\n", 1);
  const from = config.startsWith(".") ? config : `./${config}`;
  const short = question.length > 70 ? `${question.slice(0, 70)}…` : question;
  return `import { expect, it } from "vitest";
import { replayRun } from "rivulet/testing";
import config from ${JSON.stringify(from)};

const recording = new URL(${JSON.stringify(`./${file}`)}, import.meta.url);

it(${JSON.stringify(short === "" ? `${agent} runs as recorded` : short)}, async () => {
  const { run } = await replayRun(config.agents, recording);
  expect(run.agents.map(({ path }) => path)).toEqual([
${paths.map((path) => `    ${JSON.stringify(path)},\n`).join("")}  ]);
  expect(run.agents[0]?.status).toBe(${JSON.stringify(runs.at(-1)?.agents[0]?.status ?? "completed")});
});
`;
}
