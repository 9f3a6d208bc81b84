import { textOf } from "../../../src/contract/message.ts";
import {
  type Answer,
  type Approval,
  agentTool,
  type Hook,
  type Input,
  ReActAgent,
  type Reply,
  type Store,
} from "../../../src/index.ts";
import { ManualClock, scriptedModel } from "../../../src/testing.ts";
import type { Plan } from "./plan.ts";
import { Executions, makeTools } from "./tools.ts";
import { hasStalls, troubledExecution, troubledModels } from "./troubled-model.ts";

/** What a cast is made with, besides its plan. */
export interface CastOptions {
  readonly store: Store;
  /** Made for a plan in which something stalls. */
  readonly clock?: ManualClock | undefined;
  readonly executions?: Executions;
  /** Hooks of every agent in the cast. */
  readonly hooks?: readonly Hook[];
}

/** The agents of a plan. What their models say depends on the transcript alone; they only count what goes wrong. */
export function castOf(plan: Plan, options: CastOptions): ReActAgent {
  const { store, executions = new Executions(), hooks = [] } = options;
  const { clock = hasStalls(plan) ? new ManualClock(Date.now()) : undefined } = options;
  const children = plan.children.map((child) => castOf(child, { store, executions, hooks, clock }));
  const model = scriptedModel(({ providerOptions }) => {
    executions.started += 1;
    const turn = providerOptions?.script?.turn;
    return turn === undefined ? "All I know so far." : (plan.turns[Number(turn)] ?? "Still done.");
  });
  return new ReActAgent({
    name: plan.name,
    model: troubledModels(plan, model, clock),
    modelExecution: troubledExecution,
    ...(clock && { clock }),
    tools: [...makeTools(executions), ...children.map((child) => agentTool(child))],
    hooks: [turnOf, ...hooks],
    store,
    maxIters: plan.maxIters,
    parallel: plan.parallel,
  });
}

/** Tells the model which task it works on, and how many replies of it the transcript holds. */
const turnOf: Hook = {
  name: "turn",
  preReasoning({ messages, task }, call) {
    const turn = messages.filter(
      ({ role, metadata }) => role === "assistant" && metadata?.taskId === task.taskId,
    ).length;
    const script = { turn, task: task.taskId };
    return { ...call, options: { ...call.options, providerOptions: { script } } };
  },
};

/** What people say to an approval: it depends on the call alone. */
export function answerTo(approval: Approval): Answer {
  if (approval.kind === "stop") return approval.approve();
  const { name, input } = approval.call;
  const n = (input as { n?: number }).n ?? 0;
  if (name === "outside") return approval.answer(`from outside ${n}`);
  if (name !== "ask") return approval.answer(`an answer ${n}`);
  if (n % 3 === 0) return approval.deny(`not ${n}`);
  return n % 3 === 1 ? approval.approve() : approval.edit({ n: n + 1_000 });
}

/** Calls an agent and answers everything it asks, `atOnce` or one by one, until it rests for good. */
export async function callToEnd(
  agent: ReActAgent,
  input: Input,
  sessionId: string,
  options: { readonly atOnce?: boolean } = {},
): Promise<Reply> {
  let reply = await agent.call(input, { sessionId });
  for (let round = 0; isResting(reply); round++) {
    if (round > 500) throw new Error(`It never ends: ${reply.generateReason}.`);
    const asked = options.atOnce === false ? reply.approvals.slice(0, 1) : reply.approvals;
    const answers = asked.map(answerTo);
    reply = await agent.call(answers.length > 0 ? answers : undefined, { sessionId });
  }
  return reply;
}

function isResting({ generateReason }: Reply): boolean {
  return (
    generateReason === "approval_required" ||
    generateReason === "tool_suspended" ||
    generateReason === "reasoning_stop_requested" ||
    generateReason === "acting_stop_requested"
  );
}

/** How a task went, without ids and times: to compare one run with another. */
export interface Story {
  readonly said: readonly string[];
  readonly calls: readonly CallStory[];
}
interface CallStory {
  readonly name: string;
  readonly input: unknown;
  readonly state: string | undefined;
  readonly output: string;
  readonly child?: Story;
}

/** The story of a task and its children, as the transcripts tell it. */
export async function storyOf(store: Store, taskId: string): Promise<Story> {
  const record = await store.task(taskId);
  if (record === undefined) throw new Error(`There is no task ${taskId}.`);
  const messages = await store.session(record.sessionId);
  const own = messages.filter((message) => message.metadata?.taskId === taskId);
  const blocks = own.flatMap((message) => message.content);
  const calls: CallStory[] = [];
  for (const block of blocks) {
    if (block.type !== "tool_use") continue;
    const result = blocks.find((other) => other.type === "tool_result" && other.id === block.id);
    const { state, output = [] } = result?.type === "tool_result" ? result : {};
    const child = (await store.task(block.id)) && (await storyOf(store, block.id));
    const { name, input } = block;
    const text = withoutNumbers(textOf(output), name.startsWith(`${record.agentName}_`));
    calls.push({ name, input, state, output: text, ...(child && { child }) });
  }
  const said = own.flatMap(({ role, content }) => (role === "assistant" ? [textOf(content)] : []));
  return { said, calls };
}

/** Numbers are given in the order in which results come, which may differ; and so may what a child cites as its first. */
function withoutNumbers(text: string, isChild: boolean): string {
  const pool = /<referencable-item>.*?<\/referencable-item>/gs;
  return (isChild ? text.replace(pool, "") : text).replace(/ID: \d+|\[\^\d+\]/g, "[reference]");
}
