import { readFileSync, writeFileSync } from "node:fs";
import { settingsBehind } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import { type Field, type Fields, readArgument, readOptions } from "../base/options.ts";
import { type Agent, agentField, type Store } from "../contract/index.ts";
import {
  type ReplayedRun,
  type ReplayOptions,
  type RunRecording,
  recordingOf,
  replayRecording,
} from "../harness/index.ts";

const agentsField: Field = {
  fits: (value) => [value].flat().length > 0 && [value].flat().every((one) => agentField.fits(one)),
  expected: "an agent, or a list of agents",
};
const fileField: Field = {
  fits: (value) => (typeof value === "string" && value !== "") || value instanceof URL,
  expected: "the path of a file",
};
const playing = is.oneOf("recorded", "live");
const optionFields: Fields<Omit<ReplayOptions, "isFresh">> = {
  models: playing,
  tools: playing,
  call: is.record,
};

/**
 * Runs the agent of a recording again, without a model and without tools unless `models` or `tools` is `"live"`. Throws
 * `replay_differs` at the first prompt, call or result that differs; the message names the agent and its step. With
 * `RIVULET_RECORD=1` in the environment it runs everything live instead, and replaces the recording if the run ends well.
 */
export async function replayRun(
  agents: Agent | readonly Agent[],
  recording: string | URL,
  options: Omit<ReplayOptions, "isFresh"> = {},
): Promise<Pick<ReplayedRun, "run" | "tree">> {
  readArgument("agents", agents, is.required(agentsField));
  readArgument("recording", recording, is.required(fileField));
  const read = readOptions("replayRun()", options, optionFields);
  const list = Array.isArray(agents) ? (agents as readonly Agent[]) : [agents as Agent];
  const recorded = readRecording(recording);
  if (process.env.RIVULET_RECORD !== "1") {
    const { run, tree } = await replayRecording(list, recorded, read);
    return { run, tree };
  }
  const live = { ...read, models: "live", tools: "live", isFresh: true } as const;
  const { store, run, tree } = await replayRecording(list, recorded, live);
  const last = recorded.tasks.findLast(({ parentTaskId }) => parentTaskId === undefined);
  await write(list, store, last?.taskId ?? "", recording, read.call);
  return { run, tree };
}

/**
 * Writes the recording of a stored run: what `replayRun` replays. `call` has the values and hooks that the call had. Throws
 * `replay_unsupported` for a run that cannot be replayed, and `replay_differs` for one that a replay does not repeat.
 */
export async function recordRun(
  agents: Agent | readonly Agent[],
  taskId: string,
  recording: string | URL,
  options: Pick<ReplayOptions, "call"> = {},
): Promise<void> {
  readArgument("agents", agents, is.required(agentsField));
  readArgument("taskId", taskId, is.required(is.name, '"task_…"'));
  readArgument("recording", recording, is.required(fileField));
  const { call } = readOptions("recordRun()", options, { call: is.record });
  const list = Array.isArray(agents) ? (agents as readonly Agent[]) : [agents as Agent];
  const stores = list.flatMap((agent) => settingsBehind(agent)?.store ?? []);
  const [first, ...others] = stores;
  if (first === undefined)
    throw new RivuletError("unknown_agent", "recordRun() got no agent that runs here.", {
      hint: "Pass the agent that ran the task.",
    });
  let store = first;
  for (const other of others) if (await other.task(taskId)) store = other;
  await write(list, store, taskId, recording, call);
}

async function write(
  agents: readonly Agent[],
  store: Store,
  taskId: string,
  recording: string | URL,
  call: ReplayOptions["call"],
): Promise<void> {
  // The first replay finds out what the models are given, and that the run can be repeated.
  const { recording: checked } = await replayRecording(
    agents,
    await recordingOf(store, taskId),
    call ? { call } : {},
  );
  writeFileSync(recording, `${JSON.stringify(checked, null, 1)}\n`);
}

function readRecording(path: string | URL): RunRecording {
  try {
    const recording = JSON.parse(readFileSync(path, "utf8")) as RunRecording;
    if (recording.version === 1) return recording;
  } catch (cause) {
    throw new RivuletError("recording_invalid", `${path} cannot be read as a recording.`, {
      hint: "Write one with rivulet test from <task>.",
      cause,
    });
  }
  throw new RivuletError("recording_invalid", `${path} is no recording of this version.`, {
    hint: "Write one with rivulet test from <task>.",
  });
}
