import { createHash } from "node:crypto";
import { agentWith, settingsBehind } from "../../agent/index.ts";
import { RivuletError, rivuletErrorOf } from "../../base/error.ts";
import { invalid } from "../../base/options.ts";
import type {
  Agent,
  OutputOf,
  Reply,
  RunOptions,
  StandardSchema,
  Store,
  TaskRecord,
} from "../../contract/index.ts";
import { billedRecord, HarnessAgent, harnessBehind } from "../../harness/index.ts";
import {
  addBills,
  type Bill,
  type BillRow,
  billOf,
  isTerminal,
  TaskTree,
  type Tree,
} from "../../protocol/index.ts";
import { readPages } from "../../store/index.ts";
import type { Eval, EvalCase } from "./eval.ts";
import { type CellScore, type EvalCell, meanOf, sumOf } from "./report.ts";
import type { Score, Scorer } from "./scorers.ts";

/** A cell before it runs. */
export interface CellPlan {
  readonly case: EvalCase;
  readonly variant: string;
  readonly repeat: number;
  /** The agent, on the store of the eval. */
  readonly agent: Agent;
  /** The beginning of the ids of its runs. */
  readonly id: string;
}

/** The parts that the cells of an eval share. */
export interface EvalRun {
  readonly eval: Eval;
  readonly store: Store;
  /** Runs of earlier calls that failed get one more attempt. */
  readonly retryFailed: boolean;
}

/** The cells of an eval, in the order of the report. */
export function planCells(
  { name, version, variants, repeats }: Eval,
  cases: readonly EvalCase[],
  store: Store,
): readonly CellPlan[] {
  const agents = [...variants].map(([variant, given]) => ({
    variant,
    agent: agentOn(given, store),
  }));
  return cases.flatMap((one) =>
    Array.from({ length: repeats }, (_, index) => index + 1).flatMap((repeat) =>
      agents.map(({ variant, agent }): CellPlan => {
        const content = [name, version, one.name, one.input, variant, repeat, identityOf(agent)];
        return { case: one, variant, repeat, agent, id: idOf("eval", content) };
      }),
    ),
  );
}

/**
 * The agent on the store of the eval. Its id is another one, so that a server on the same store, whose agent may have
 * another prompt, takes up none of its runs, and files of the agent stay as they are.
 */
function agentOn(agent: Agent, store: Store): Agent {
  const settings = settingsBehind(agent);
  if (settings === undefined)
    throw invalid(
      `The agent ${agent.name} does not run in this process.`,
      "Pass a ReActAgent or a HarnessAgent.",
    );
  const agentId = `${settings.agentId}@eval`;
  const harness = harnessBehind(agent);
  if (harness === undefined) return agentWith(agent, { store, agentId });
  const { options, clock } = harness;
  return new HarnessAgent({ ...options, store, clock, agentId });
}

/** The settings that a stored reply depends on, as far as they can be compared. */
function identityOf(agent: Agent): unknown {
  const settings = settingsBehind(agent);
  if (settings === undefined) return agent.name;
  const { name, systemPrompt, choices, modelOptions, toolkit, version } = settings;
  return [name, systemPrompt, [...choices.keys()], modelOptions, toolkit.names, version];
}

function idOf(prefix: string, content: unknown): string {
  const hash = createHash("sha256").update(JSON.stringify(content)).digest("hex");
  return `${prefix}_${hash.slice(0, 32)}`;
}

/** A run that rests, after as many attempts as it took. */
interface Rested<O> {
  readonly reply?: Reply<O>;
  readonly error?: RivuletError | undefined;
  /** The last attempt; absent if none could start. */
  readonly record?: TaskRecord | undefined;
  /** The usage of all attempts. */
  readonly bill: Bill;
}

/** The id of an attempt, from 0. */
export function attemptId(id: string, attempt: number): string {
  return `${id}_${attempt}`;
}

/** Runs an agent under the given id, continues what an earlier process has begun, or reads what it has ended. */
async function settle<S extends StandardSchema | undefined>(
  { eval: { retries }, store, retryFailed }: EvalRun,
  agent: Agent,
  input: EvalCase["input"],
  id: string,
  options: Pick<RunOptions<S>, "metadata" | "output">,
): Promise<Rested<OutputOf<S>>> {
  const bills: Bill[] = [];
  for (let attempt = 0; ; attempt++) {
    const taskId = attemptId(id, attempt);
    const stored = await store.task(taskId);
    const wasOver = stored !== undefined && isTerminal(stored.status);
    const run = agent.run<S>(input, { ...options, taskId, sessionId: taskId });
    const ended = await run.result().then(
      (reply) => ({ reply, error: undefined }),
      (thrown: unknown) => ({ reply: undefined, error: rivuletErrorOf(thrown) }),
    );
    await run.settled();
    const record = await store.task(taskId);
    const tasks = await store.tasks({ rootTaskId: taskId });
    bills.push(billOf(tasks.map(billedRecord)));
    const bill = addBills(bills);
    const error = failureOf(record, ended.error);
    if (error === undefined && ended.reply) return { reply: ended.reply, record, bill };
    const mayRetry = error?.retryable === true && attempt < retries;
    const isRetried = (await store.task(attemptId(id, attempt + 1))) !== undefined;
    if (!isRetried && !mayRetry && !(wasOver && retryFailed)) return { error, record, bill };
  }
}

/** Why a run has no reply to score. */
function failureOf(
  record: TaskRecord | undefined,
  thrown: RivuletError | undefined,
): RivuletError | undefined {
  if (record?.status === "suspended")
    return new RivuletError("session_suspended", "The run waits for an answer.", {
      hint: "Give the agent permissions or tools that need no person.",
    });
  if (record?.status === "cancelled")
    return new RivuletError("cancelled", "The run was cancelled.");
  if (record?.error === undefined) return thrown;
  const { code, message, ...rest } = record.error;
  return new RivuletError(code, message, rest);
}

/** Runs and scores a cell. */
export async function runCell(run: EvalRun, plan: CellPlan): Promise<EvalCell> {
  const { case: one, variant, repeat, agent, id } = plan;
  const { name, scorers } = run.eval;
  const metadata = { eval: name, case: one.name, variant, repeat };
  const { reply, error, record, bill } = await settle(run, agent, one.input, id, { metadata });
  const judging: BillRow[] = [];
  const cell = {
    ...{ case: one.name, variant, repeat, bill: bill.total, ms: record?.workedMs ?? 0 },
    ...(record && { taskId: record.taskId, sessionId: record.sessionId }),
  };
  if (reply === undefined) {
    const reason = error === undefined ? "There is no reply." : `${error.code}: ${error.message}`;
    return { ...cell, status: "failed", reason, scores: {}, judging: sumOf([]) };
  }
  const { tree, modelCalls } = await foldLog(run.store, reply.task.rootTaskId);
  const ask = async <S extends StandardSchema | undefined>(
    asked: Agent,
    prompt: string,
    options: Pick<RunOptions<S>, "output"> = {},
  ): Promise<Reply<OutputOf<S>>> => {
    const judge = agentOn(asked, run.store);
    const askId = idOf("judge", [reply.task.taskId, identityOf(asked), prompt]);
    const rested = await settle<S>(run, judge, prompt, askId, {
      metadata: { ...metadata, judges: reply.task.taskId },
      ...options,
    });
    judging.push(rested.bill.total);
    if (rested.reply) return rested.reply;
    throw rested.error;
  };
  const scored = { case: one, variant, reply, tree, modelCalls, ask };
  const scores: Record<string, CellScore> = {};
  for (const [scorer, score] of Object.entries(scorers))
    scores[scorer] = await scoreBy(score, scored);
  const values = Object.values(scores).flatMap(({ score }) => score ?? []);
  const isWhole = values.length === Object.keys(scorers).length;
  const mean = isWhole ? meanOf(values) : undefined;
  return {
    ...{ ...cell, status: "scored", text: reply.text, scores },
    ...(mean !== undefined && { score: mean }),
    judging: sumOf(judging),
  };
}

async function scoreBy(scorer: Scorer, scored: Parameters<Scorer>[0]): Promise<CellScore> {
  try {
    return readScore(await scorer(scored));
  } catch (thrown) {
    return { error: thrown instanceof Error ? thrown.message : String(thrown) };
  }
}

function readScore(given: Score): CellScore {
  const { score, why } = typeof given === "number" ? { score: given } : { ...given };
  if (typeof score !== "number" || !(score >= 0 && score <= 1))
    return { error: `A scorer must return a number from 0 to 1, got ${String(score)}.` };
  return { score, ...(why !== undefined && { why }) };
}

async function foldLog(
  store: Store,
  log: string,
): Promise<{ readonly tree: Tree; readonly modelCalls: number }> {
  const fold = new TaskTree();
  let modelCalls = 0;
  for await (const { frames } of readPages(store, log)) {
    fold.apply(frames);
    modelCalls += frames.filter(({ type }) => type === "task.usage").length;
  }
  return { tree: fold.tree, modelCalls };
}
