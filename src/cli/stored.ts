import { existsSync } from "node:fs";
import { RivuletError } from "../base/error.ts";
import { type Store, type TaskRecord, textOf } from "../contract/index.ts";
import { isTerminal, type Prices, type TaskEvent, TaskTree } from "../protocol/index.ts";
import { openStore, readFrames } from "../store/index.ts";
import { type Arguments, numberFlag } from "./arguments.ts";
import { findConfig, loadProject } from "./config.ts";
import type { Console } from "./console.ts";
import type { Flags } from "./flags.ts";
import { shortTime } from "./roster.ts";
import { defaultStore } from "./sample-team.ts";
import { column, cutTo, printable } from "./text.ts";

const pageSize = 1_000;
const scanned = 1_000;

/** Opens the store of this folder without creating one. */
export async function openExisting(flags: Flags, console: Console): Promise<Store> {
  return (await openPriced(flags, console)).store;
}

/** Opens the store of this folder without creating one, with the prices of the config. */
export async function openPriced(
  flags: Flags,
  console: Console,
): Promise<{ readonly store: Store; readonly prices?: Prices | undefined }> {
  if (findConfig(flags.config) !== undefined) {
    const { store, options } = await loadProject(flags, console.env);
    return { store, prices: options.prices };
  }
  const path = defaultStore.slice("sqlite:".length);
  if (existsSync(path)) return { store: openStore(defaultStore) };
  throw new RivuletError("store_not_found", `There is no store at ${path}.`, {
    hint: 'Run something first, such as rivulet run "Hello", or change to the folder of the project.',
  });
}

/** `rivulet tasks`: the root tasks and background children, newest first. */
export async function listTasks({ flags }: Arguments, console: Console): Promise<number> {
  const limit = numberFlag("limit", flags.limit, 10_000) ?? 20;
  const store = await openExisting(flags, console);
  const records = (await startedTasks(store)).filter(isListed).slice(0, limit);
  const { columns, style } = console.canvas;
  if (!flags.json && records.length === 0) console.print("There is no task yet.");
  for (const record of records) {
    const { taskId, rootTaskId, status, sessionId, agentId, createdAt, total } = record;
    const title = `${isRoot(record) ? "" : `${agentId}, in the background: `}${await titleOf(store, record)}`;
    const tokens = total?.usage.total_tokens;
    if (flags.json) {
      console.print(
        JSON.stringify({
          taskId,
          ...(!isRoot(record) && { rootTaskId }),
          status,
          sessionId,
          agentId,
          createdAt,
          title,
          tokens,
        }),
      );
      continue;
    }
    const age = `${shortTime(Date.now() - createdAt)} ago`;
    const head = `${taskId}  ${column(status, 11)} ${column(age, 10)} `;
    const isWide = columns >= head.length + 20;
    if (isWide) console.print(`${head}${cutTo(title, columns - head.length)}`);
    else
      for (const line of [taskId, style("dim", cutTo(`  ${status}, ${age}: ${title}`, columns))])
        console.print(line);
  }
  await store.close();
  return 0;
}

/** The newest tasks that a message or a model has started. */
async function startedTasks(store: Store): Promise<readonly TaskRecord[]> {
  const records = await store.tasks({ newestFirst: true, limit: scanned });
  return records.filter(({ observes }) => !observes);
}

function isRoot({ taskId, rootTaskId }: TaskRecord): boolean {
  return taskId === rootTaskId;
}

/** A child that its parent waits for is a part of its parent. */
function isListed(record: TaskRecord): boolean {
  return isRoot(record) || record.mode === "background";
}

async function titleOf(store: Store, { input, sessionId, taskId }: TaskRecord): Promise<string> {
  const messages = input ?? (await store.session(sessionId));
  const asked = messages.find(
    ({ role, metadata }) => role === "user" && (input || metadata?.taskId === taskId),
  );
  return printable(asked ? textOf(asked.content) : "").replace(/\s+/g, " ");
}

/** Finds a root task by its id, a child's id, or a session; the newest one without an id. */
export async function findStored(store: Store, id: string | undefined): Promise<TaskRecord> {
  const found =
    id === undefined ? (await startedTasks(store)).find(isRoot) : await findByName(store, id);
  if (found) return found;
  if (id === undefined) {
    const hint = 'Run something first, such as rivulet run "Hello".';
    throw new RivuletError("not_found", "There is no task yet.", { hint });
  }
  const message = `There is no task or session ${JSON.stringify(id.slice(0, 100))}.`;
  throw new RivuletError("not_found", message, { hint: "rivulet tasks lists the tasks." });
}

async function findByName(store: Store, id: string): Promise<TaskRecord | undefined> {
  const task = await store.task(id);
  if (task) return store.task(task.rootTaskId);
  const [newest] = await store.tasks({ sessionId: id, newestFirst: true, limit: 1 });
  return newest && store.task(newest.rootTaskId);
}

/** Reads a log as it grows, until all its tasks have ended. It never takes part in the work. */
export async function* followStored(
  store: Store,
  log: string,
  signal: AbortSignal,
): AsyncGenerator<TaskEvent, void> {
  const fold = new TaskTree();
  let after = -1;
  let changed = Promise.withResolvers<void>();
  const wake = () => changed.resolve();
  const unwatch = store.watch({ log }, wake);
  const keepAlive = setInterval(() => {}, 60_000); // a store does not keep its process running
  signal.addEventListener("abort", wake);
  try {
    while (!signal.aborted) {
      const { frames, through, mayHaveMore } = await readFrames(store, log, after, pageSize);
      after = through;
      for (const frame of frames) {
        fold.apply(frame);
        yield frame;
      }
      const tasks = Object.values(fold.tree.tasks);
      if (!mayHaveMore && tasks.length > 0 && tasks.every(({ status }) => isTerminal(status)))
        return;
      if (mayHaveMore) continue;
      await changed.promise;
      changed = Promise.withResolvers();
    }
  } finally {
    unwatch();
    clearInterval(keepAlive);
    signal.removeEventListener("abort", wake);
  }
}
