import { agentWith, jsonSchema, processOf, settingsBehind } from "../../agent/index.ts";
import { systemClock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import { createIds } from "../../base/id.ts";
import type { Agent, Answer, Approval, RunOptions, Store } from "../../contract/index.ts";
import type { Tree } from "../../protocol/index.ts";
import { TaskTree } from "../../protocol/index.ts";
import { memoryStore, readPages } from "../../store/index.ts";
import { harnessBehind } from "../harness.ts";
import { type RunView, runOf } from "./agents-view.ts";
import { differs, firstDifference } from "./difference.ts";
import { compareLive } from "./live.ts";
import { offlineModel } from "./played-model.ts";
import { Player, type Playing } from "./player.ts";
import { type RecordedTask, type RunRecording, unsupported } from "./recording.ts";

const longestMs = 2 ** 31 - 1;

/** How a recorded run is replayed: what is not live comes from the recording. */
export interface ReplayOptions extends Partial<Playing> {
  /** Values and hooks of each call, as the program passes them to `call()`. */
  readonly call?: Pick<RunOptions, "context" | "hooks">;
}

/** A replayed run. */
export interface ReplayedRun {
  readonly run: RunView;
  /** The folded tree of the last root task. */
  readonly tree: Tree;
  /** The store of the replay, from which a new recording can be made. */
  readonly store: Store;
  /** The recording with the prompts that the agents make now. */
  readonly recording: RunRecording;
}

/** Runs an agent as it was recorded; throws `replay_differs` at the first prompt, call or result that is different. */
export async function replayRecording(
  agents: readonly Agent[],
  recording: RunRecording,
  options: ReplayOptions = {},
): Promise<ReplayedRun> {
  const { models = "recorded", tools = "recorded", isFresh = false, call = {} } = options;
  const found = agents.find(({ name }) => name === recording.agent);
  if (found === undefined || settingsBehind(found) === undefined)
    throw new RivuletError("unknown_agent", `No agent is called ${recording.agent}.`, {
      hint: `Pass the agent of the recording. The agents are: ${agents.map(({ name }) => name).join(", ") || "none"}.`,
    });
  const isLive = models === "live" || tools === "live";
  if (isLive && recording.tasks.some(({ status }) => status === "cancelled"))
    throw unsupported("it was cancelled, and live models and tools take another time");
  const started = systemClock.now();
  const clock = { ...systemClock, now: () => systemClock.now() - started + recording.startedAt };
  const store = memoryStore();
  const player = new Player(recording, store, { models, tools, isFresh });
  const agent = agentIn(found, store, clock, models === "recorded" ? player : undefined);
  processOf(store).standIn = player;
  const trees: Tree[] = [];
  try {
    for (const root of recording.tasks.filter(({ parentTaskId }) => parentTaskId === undefined)) {
      await replayRoot(agent, root, recording, player, call);
      trees.push(await treeOf(store, root.taskId));
    }
  } catch (error) {
    throw player.difference ?? error;
  } finally {
    player.close();
    if ("close" in agent && typeof agent.close === "function") await agent.close();
  }
  if (player.difference) throw player.difference;
  const tree = trees.at(-1);
  if (tree === undefined) throw new RivuletError("recording_invalid", "The recording has no task.");
  if (models === "live") await compareLive(recording, store, player, isFresh);
  else
    for (const [index, recorded] of recording.runs.entries())
      compareRuns(recorded, runOf(trees[index] as Tree));
  return { run: runOf(tree), tree, store, recording: player.withPrompts() };
}

/** The same agent on another store and with another clock. Its memory learns nothing from a replay. */
function agentIn(
  agent: Agent,
  store: Store,
  clock: typeof systemClock,
  player: Player | undefined,
): Agent {
  const harness = harnessBehind(agent);
  if (harness) {
    const { memory, compaction } = harness.options;
    const model = player && offlineModel((error) => player.fail(error));
    return harness.create({
      ...{ ...harness.options, store, clock },
      ...(memory && { memory: { ...memory, idleMs: longestMs, consolidateMs: longestMs } }),
      ...(model && compaction !== false && { compaction: { ...compaction, model } }),
    });
  }
  return agentWith(agent, { store, clock, ids: createIds({ clock }) });
}

async function replayRoot(
  agent: Agent,
  root: RecordedTask,
  { tasks }: RunRecording,
  player: Player,
  given: NonNullable<ReplayOptions["call"]>,
): Promise<void> {
  const { sessionId, taskId, model } = root;
  const input = root.messages
    .filter(({ metadata }) => metadata?.input === true)
    .map(({ role, name, content }) => ({ role, ...(name !== undefined && { name }), content }));
  const options = {
    ...{ ...given, sessionId },
    ...(model !== undefined && { model }),
    ...(root.outputSchema && { output: jsonSchema(root.outputSchema) }),
    ...(root.budget && { budget: root.budget }),
  };
  const answered = new Map<string, number>();
  let run = agent.run(input, { ...options, taskId });
  for (;;) {
    player.steer = (text) => run.steer(text);
    player.cancelRun = (reason) => run.cancel(reason);
    await run.result().catch(() => {}); // a failed run is compared as well
    await run.settled();
    const open = await agent.approvals({ sessionId });
    const answers = open.flatMap((approval) => answerTo(approval, tasks, player, answered));
    if (player.difference || answers.length === 0) return;
    run = agent.run(answers, options);
  }
}

/** The recorded decision about an approval; none if it waits in the recording too. */
function answerTo(
  { id: approvalId, taskId, rootTaskId, call }: Approval,
  tasks: readonly RecordedTask[],
  player: Player,
  answered: Map<string, number>,
): readonly Answer[] {
  const recordedId = player.recordedCall(taskId, call);
  const answers = tasks
    .filter((recorded) => call.id !== "" || recorded.taskId === player.recordedId(taskId))
    .flatMap(({ messages }) => messages.flatMap(({ content }) => content))
    .filter((block) => block.type === "answer")
    .filter(({ callId }) => call.id === "" || callId === recordedId);
  const place = `${taskId} ${call.id}`;
  const count = answered.get(place) ?? 0;
  const answer = answers[count];
  if (answer === undefined || answer.decision === "cancel") return [];
  answered.set(place, count + 1);
  const { decision, input, output, state, reason, always } = answer;
  return [
    {
      ...{ type: "answer", approvalId, taskId, rootTaskId },
      decision: decision === "expire" ? "deny" : decision,
      ...(input !== undefined && { input }),
      ...(output !== undefined && { output }),
      ...(state !== undefined && { state }),
      ...(reason !== undefined && { reason }),
      ...(always !== undefined && { always }),
    },
  ];
}

async function treeOf(store: Store, taskId: string): Promise<Tree> {
  const fold = new TaskTree();
  for await (const { frames } of readPages(store, taskId))
    for (const event of frames) fold.apply(event);
  return fold.tree;
}

function compareRuns(recorded: RunView, replayed: RunView): void {
  for (const [index, agent] of recorded.agents.entries()) {
    const difference = firstDifference(agent, replayed.agents[index] ?? null);
    if (difference) throw differs(agent.path, undefined, `has another ${difference}`);
  }
  const more = replayed.agents[recorded.agents.length];
  if (more) throw differs(more.path, undefined, "is not in the recording");
}
