import { moveConversation, processOf } from "../agent/index.ts";
import { RivuletError } from "../base/error.ts";
import type { NodeState, Store, TaskRecord } from "../contract/index.ts";
import {
  listApprovals,
  type Overview,
  overviewOf,
  type SessionApproval,
  type WaitingSession,
} from "../harness/index.ts";
import { retryOf } from "../server/index.ts";
import { type Arguments, numberFlag, usageError } from "./arguments.ts";
import { loadProject } from "./config.ts";
import type { Console } from "./console.ts";
import { shortTime } from "./roster.ts";
import { findStored, listTasks, openExisting } from "./stored.ts";
import { cutTo, printable } from "./text.ts";

/** `rivulet tasks`: lists tasks or nodes, retries a task, moves a session. */
export async function tasksCommand(args: Arguments, console: Console): Promise<number> {
  const [action, ...operands] = args.operands;
  if (args.flags.waiting) return listWaiting(args, console);
  if (action === undefined) return listTasks(args, console);
  const run = actions[action];
  if (run === undefined)
    throw usageError(
      `rivulet tasks has no action ${JSON.stringify(action.slice(0, 60))}.`,
      "Write rivulet tasks nodes, retry <task> or move <session> <place>.",
    );
  return run({ ...args, operands }, console);
}

const actions: Readonly<Record<string, (args: Arguments, console: Console) => Promise<number>>> = {
  nodes: listNodes,
  retry: retryTask,
  move: moveSession,
};

/** Lists the approvals that wait in all sessions of all users. */
async function listWaiting({ flags, operands }: Arguments, console: Console): Promise<number> {
  if (operands.length > 0)
    throw usageError("rivulet tasks --waiting takes no more.", "Remove the other words.");
  const limit = numberFlag("limit", flags.limit, 10_000) ?? 20;
  const store = await openExisting(flags, console);
  const all: SessionApproval[] = [];
  let next: string | undefined;
  do {
    const place = next === undefined ? {} : { before: next };
    const page = await listApprovals(store, { ...place, limit: limit - all.length });
    all.push(...page.found);
    next = page.next;
  } while (next !== undefined && all.length < limit);
  await store.close();
  const shown = all.slice(0, limit);
  if (flags.json) for (const one of shown) console.print(JSON.stringify(plain(one)));
  else if (shown.length === 0) console.print("Nothing waits for a person.");
  else for (const one of shown) for (const line of waitingLines(one, console)) console.print(line);
  return 0;
}

function plain({ approval, session: { sessionId, userId, agentId, title } }: SessionApproval) {
  return { ...approval, sessionId, userId, agentId, title };
}

function waitingLines({ approval, session }: SessionApproval, console: Console): readonly string[] {
  const { columns, style } = console.canvas;
  const { id, kind, path, call, message = "", expiresAt } = approval;
  const asker = path ?? session.agentId ?? "";
  const what = call.name === "" ? message : `${call.name} ${JSON.stringify(call.input)} ${message}`;
  const facts = [
    kind.replace("_", " "),
    `session ${session.sessionId}`,
    ...(session.userId === undefined ? [] : [`user ${session.userId}`]),
    ...(expiresAt === undefined ? [] : [`expires ${new Date(expiresAt).toISOString()}`]),
  ];
  return [
    cutTo(`${id}  ${printable(`${asker}: ${what}`.trim()).replace(/\s+/g, " ")}`, columns),
    style("dim", cutTo(`  ${printable(facts.join(", "))}`, columns)),
  ];
}

async function listNodes({ flags, operands }: Arguments, console: Console): Promise<number> {
  if (operands.length > 0) throw usageError("rivulet tasks nodes takes no more.", "Remove it.");
  const store = await openExisting(flags, console);
  const overview = await overviewOf(store);
  const lines = flags.json ? [JSON.stringify(overview)] : textOf(overview);
  for (const line of lines) console.print(line);
  await store.close();
  return 0;
}

function textOf({ nodes, waiting, poisoned }: Overview): readonly string[] {
  return [
    ...(nodes.length === 0 ? ["No process has been seen for an hour."] : nodes.flatMap(nodeLines)),
    ...(waiting.length === 0 ? [] : ["", "Waiting for a process", ...waiting.map(waitingLine)]),
    ...(poisoned.length === 0 ? [] : ["", "Judged poison", ...poisoned.map(poisonedLine)]),
  ];
}

function nodeLines({ name, isLive, silentMs, agents, places, conversations }: NodeState): string[] {
  const state = isLive ? "live" : `gone for ${shortTime(silentMs)}`;
  const runs = agents.map(({ agentId, version }) =>
    version === undefined ? agentId : `${agentId} ${version}`,
  );
  return [
    `${name}  ${state}, ${runs.length === 0 ? "runs nothing" : `runs ${runs.join(", ")}`}`,
    ...places.map((place) => `  place ${place}`),
    ...conversations.map((sessionId) => `  ${sessionId}`),
  ];
}

const needs = {
  unknown_agent: () => "no process has its agent",
  unknown_version: ({ agentVersion }: TaskRecord) => `no process has version ${agentVersion}`,
  unknown_place: ({ place }: TaskRecord) => `no process has place ${place}`,
  user_limit: () => "its user has as many at work as allowed",
} as const;

function waitingLine({ sessionId, root, reason }: WaitingSession): string {
  const missing = root && reason ? `, ${needs[reason](root)}` : "";
  return `  ${sessionId}  ${root?.agentName ?? ""}${missing}`;
}

function poisonedLine({ taskId, agentName, error }: TaskRecord): string {
  return `  ${taskId}  ${agentName}: ${error?.message ?? ""}`;
}

/** Queues the retry for the processes of the store, because this one ends. */
async function retryTask({ flags, operands }: Arguments, console: Console): Promise<number> {
  const [id, ...more] = operands;
  if (id === undefined || more.length > 0)
    throw usageError("rivulet tasks retry takes one task.", "Write rivulet tasks retry <task>.");
  const { agents, store } = await loadProject(flags, console.env);
  const record = await findStored(store, id);
  const agent = agents.find(({ name }) => name === record.agentName);
  if (agent === undefined)
    throw new RivuletError("unknown_agent", `The config has no agent ${record.agentName}.`, {
      hint: "Use the config that started the task.",
    });
  const { input, options } = await retryOf(store, record);
  processOf(store).runNothing();
  const { userId } = record;
  const run = agent.run(input, { ...options, ...(userId !== undefined && { userId }) });
  run.result().catch(() => {}); // its task is queued, and the store closes before it ends
  const { taskId } = await run.task;
  console.print(taskId);
  console.note("The task is queued. Follow it with rivulet watch.");
  await store.close();
  return 0;
}

async function moveSession({ flags, operands }: Arguments, console: Console): Promise<number> {
  const [sessionId, place, ...more] = operands;
  if (sessionId === undefined || place === undefined || more.length > 0)
    throw usageError(
      "rivulet tasks move takes a session and a place.",
      "Write rivulet tasks move <session> <place>, or any for the place. rivulet tasks nodes lists the places.",
    );
  const store = await openExisting(flags, console);
  const ties = { agentVersion: "", place: place === "any" ? "" : place };
  if (!(await moveConversation(store, await rootSessionOf(store, sessionId), ties)))
    throw new RivuletError("not_found", `Session ${sessionId} has no unfinished task.`, {
      hint: "rivulet tasks nodes lists the sessions that wait.",
    });
  console.note(`Any process with ${place === "any" ? "the agent" : "the place"} may continue it.`);
  await store.close();
  return 0;
}

async function rootSessionOf(store: Store, id: string): Promise<string> {
  return (await findStored(store, id)).sessionId;
}
