import { after } from "../../agent/base/time.ts";
import { type Hook, type HookContext, tellAnyway } from "../../agent/loop/hooks.ts";
import { flattenModels, type Model, modelField } from "../../agent/model/resolve.ts";
import { reasonOf } from "../../agent/tool/result.ts";
import { type Clock, systemClock } from "../../protocol/clock.ts";
import { createIds } from "../../protocol/id.ts";
import type { Fields } from "../../protocol/options.ts";
import * as is from "../../protocol/options.ts";
import type { SessionInfo, Store } from "../../protocol/store.ts";
import type { Usage } from "../../protocol/task.ts";
import { askModel, commonOptions } from "../ask-model.ts";
import { fileSections, memoryContextFiles } from "../context-files.ts";
import { type IsolationScope, scopeField, type TaskOwner } from "../filesystem/path.ts";
import type { Harness } from "../harness.ts";
import type { NoteSource } from "../notes.ts";
import { memoryIntroduction } from "../prompts.ts";
import { memoryTools } from "../tools/memory.ts";
import { sessionTools } from "../tools/sessions.ts";
import { FileCache, type FileView, openWorkspace } from "../workspace.ts";
import { consolidate, consolidatedAt } from "./consolidate.ts";
import { distill } from "./distill.ts";
import { type Forgotten, forget } from "./forget.ts";
import { dailyFiles, memoryFile } from "./memory-files.ts";
import { type MemoryIndex, openIndex, type Passage, passagesOf } from "./search.ts";

/** How an agent remembers. */
export interface MemoryOptions {
  /** The model that finds and merges facts; defaults to the agent's. */
  readonly model?: Model;
  /** Which tasks share a memory; defaults to the `isolation` of the agent's files. */
  readonly scope?: IsolationScope;
  /** How long a session must be idle before it is distilled; defaults to 60 000 ms. */
  readonly idleMs?: number;
  /** The least time between two merges into `MEMORY.md`; defaults to 30 minutes. */
  readonly consolidateMs?: number;
  /** The time limit of a model call; defaults to 60 000 ms. */
  readonly timeoutMs?: number;
  /** Called with the usage of each model call; the model is `provider/id`. */
  readonly onUsage?: (usage: Usage, model: string) => void;
}

/** The rules for the options. */
export const memoryFields: Fields<MemoryOptions> = {
  model: modelField,
  scope: scopeField,
  idleMs: is.duration,
  consolidateMs: is.amount,
  timeoutMs: is.duration,
  onUsage: is.callback,
};

/** The memory of an agent, for all its users. */
export interface AgentMemory {
  /** The tools of the memory; distils a session some time after each of its tasks. */
  readonly hook: Hook;
  /** Only the tools, for a child that works for the same user. */
  readonly childHook: Hook;
  /** Shows what is remembered, once per session and again after a compaction. */
  readonly note: NoteSource;
  /** Distils a session soon, because its messages are about to leave the model's view. */
  onCompact(context: HookContext): void;
  readonly scope: IsolationScope;
  viewOf(owner: TaskOwner): FileView;
  search(view: FileView, text: string, limit: number): Promise<readonly Passage[]>;
  forget(owner: TaskOwner, text: string): Promise<Forgotten>;
  /** Distils all sessions of a scope and merges the new facts; rejects with the first error. */
  flush(owner: TaskOwner): Promise<void>;
  /** Stops the work in the background; it continues with the next task. */
  close(): void;
}

const noteKey = "memory";
const maxParallel = 2;
const maxShownTokens = 4_000;
const maxIndexes = 16;
const sessionPage = 100;

/** Opens the memory of an agent; it makes model calls only if `memory` was set. */
export function openMemory(harness: Omit<Harness, "memory">): AgentMemory | undefined {
  const { options, store, clock, workspace, warn } = harness;
  const { memory: given } = options;
  if (given === false || !workspace) return undefined;
  const { idleMs = 60_000, consolidateMs = 30 * 60_000, timeoutMs = 60_000 } = given ?? {};
  const { scope = workspace.isolation, onUsage } = given ?? {};
  const agentId = options.agentId ?? options.name;
  const place = openWorkspace(workspace.files, scope);
  const asker = {
    models: flattenModels(given?.model ?? options.model),
    options: given?.model === undefined ? commonOptions(options.modelOptions) : {},
    ...{ clock, timeoutMs, ids: options.ids ?? createIds({ clock }) },
  };
  const timers = new Map<string, () => void>();
  const caughtUp = new Set<string>();
  const mergedAt = new Map<string, number>();
  const work = inTurns(maxParallel);

  const viewOf = (owner: TaskOwner) => place.viewOf(owner);
  const shownTokens = Math.min(options.maxContextTokens ?? maxShownTokens, maxShownTokens);
  const sectionsIn = fileSections(memoryContextFiles, shownTokens, clock);

  /** The sessions that share a memory. */
  async function* sessionsOf({ userId, sessionId }: TaskOwner) {
    const query = {
      ...(scope === "user" && { userId: userId ?? null }),
      ...(scope === "session" && { sessionId }),
    };
    for (let before: string | undefined; ; ) {
      const page = await store.sessions({
        ...query,
        limit: sessionPage,
        ...(before && { before }),
      });
      for (const session of page) if (session.agentId === agentId) yield session;
      before = page.at(-1)?.sessionId;
      if (page.length < sessionPage) return;
    }
  }

  /** Makes a model call; undefined if its answer was cut off. */
  const askFor = (signal: AbortSignal) => async (prompt: string, text: string) => {
    const { model, usage, ...answer } = await askModel(asker, prompt, text, signal);
    tellAnyway(() => onUsage?.(usage, `${model.provider}/${model.modelId}`));
    const isCut = answer.finishReason === "length" || answer.finishReason === "content-filter";
    return isCut ? undefined : answer.text;
  };

  function distillIn(view: FileView, session: SessionInfo, signal: AbortSignal): Promise<number> {
    const { files } = view;
    return distill({ store, files, agentId, clock, signal, warn, ask: askFor(signal) }, session);
  }

  function mergeIn({ files, key }: FileView, signal: AbortSignal): Promise<boolean> {
    return consolidate({ files, scope: key, clock, warn, ask: askFor(signal) });
  }

  async function mergeIfDue(view: FileView, signal: AbortSignal): Promise<void> {
    const { key, files } = view;
    const last = Math.max(
      await consolidatedAt({ files, scope: key }),
      mergedAt.get(key) ?? Number.NEGATIVE_INFINITY,
    );
    const now = clock.now();
    if (now - last < consolidateMs) return;
    mergedAt.set(key, now); // also if it fails, so that it is not tried after every task
    await mergeIn(view, signal);
  }

  /** Distils a session that is idle, and once per process those that an earlier process has left. */
  function distillIdle(owner: TaskOwner): void {
    const view = viewOf(owner);
    const isFirst = !caughtUp.has(view.key);
    caughtUp.add(view.key);
    const since = clock.now() - idleMs;
    background(view, async (signal) => {
      const query = { sessionId: owner.sessionId, limit: 1 };
      const idle = [...(await store.sessions(query))];
      if (isFirst) {
        for await (const session of sessionsOf(owner))
          if (session.updatedAt <= since) idle.push(session);
      }
      for (const session of idle) {
        if (!(await isBusy(store, session))) await distillIn(view, session, signal);
      }
      await mergeIfDue(view, signal);
    });
  }

  /** Runs work that no caller waits for; again if it had to make way for `forget`. */
  function background(view: FileView, run: Work<void>): void {
    work.add(view.key, run).catch((error: unknown) => {
      if (error === madeWay) background(view, run);
      else if (error !== closed) warn(`The memory was not updated: ${reasonOf(error)}`);
    });
  }

  function schedule({ task, agentId, userId }: HookContext): void {
    const { sessionId } = task;
    const owner = { sessionId, agentId, ...(userId !== undefined && { userId }) };
    timers.get(sessionId)?.();
    timers.set(
      sessionId,
      later(clock, idleMs, () => {
        timers.delete(sessionId);
        distillIdle(owner);
      }),
    );
  }

  const passages = new FileCache<readonly Passage[]>(clock, ({ path, data }) =>
    passagesOf(path, new TextDecoder().decode(data)),
  );
  const indexes = new Map<string, { from: readonly unknown[]; index: Promise<MemoryIndex> }>();

  /** The index of a scope; opened again when a file has changed. */
  async function indexOf(view: FileView): Promise<MemoryIndex> {
    const paths = [memoryFile, ...(await dailyFiles(view.files))];
    const found = await Promise.all(paths.map((path) => passages.get(view, path)));
    const from = found.filter((list) => list !== undefined);
    const known = indexes.get(view.key);
    indexes.delete(view.key);
    const isKnown =
      known?.from.length === from.length && known.from.every((list, i) => list === from[i]);
    if (known && !isKnown) void known.index.then((index) => index.close());
    const entry = known && isKnown ? known : { from, index: openIndex(from.flat()) };
    indexes.set(view.key, entry);
    const [oldest] = indexes;
    if (indexes.size > maxIndexes && oldest) {
      indexes.delete(oldest[0]);
      void oldest[1].index.then((index) => index.close());
    }
    return entry.index;
  }

  const memory: AgentMemory = {
    scope,
    viewOf,
    async note(context, view) {
      const shown = view.notes.get(noteKey);
      if (shown && shown.at >= view.from) return []; // a change is not shown before the next compaction
      const sections = await sectionsIn(place.viewFor(context));
      if (sections.length === 0) return [];
      const text = [memoryIntroduction, ...sections].join("\n\n");
      return [{ key: noteKey, text, isFixed: true }];
    },
    async search(view, text, limit) {
      const found = (await indexOf(view)).search(text, limit * 2);
      // A fact is in the daily file and, after a merge, in the memory file too.
      return [...new Map(found.toReversed().map((passage) => [passage.text, passage])).values()]
        .toReversed()
        .slice(0, limit);
    },
    async forget(owner, text) {
      const { key, files } = viewOf(owner);
      work.stop(madeWay, key);
      const sessions = () => sessionsOf(owner);
      return work.add(key, () => forget({ store, agentId, files, scope: key, sessions }, text));
    },
    async flush(owner) {
      const view = viewOf(owner);
      await work.add(view.key, async (signal) => {
        for await (const session of sessionsOf(owner)) await distillIn(view, session, signal);
        await mergeIn(view, signal);
      });
    },
    onCompact({ source, task: { sessionId }, userId }) {
      if (given === undefined || source) return;
      const view = viewOf({ sessionId, agentId, ...(userId !== undefined && { userId }) });
      background(view, async (signal) => {
        const [session] = await store.sessions({ sessionId, limit: 1 });
        if (session) await distillIn(view, session, signal);
      });
    },
    close() {
      for (const cancel of timers.values()) cancel();
      timers.clear();
      work.stop(closed);
    },
    get hook() {
      // A child's work is in the report that its parent gets.
      const postCall = (context: HookContext) => void (context.source || schedule(context));
      return { name: "memory", priority: 5, tools, ...(given && { postCall }) };
    },
    get childHook() {
      return { name: "memory", tools };
    },
  };
  const tools = [...memoryTools(memory), ...sessionTools({ store, agentId, scope })];
  return memory;
}

async function isBusy(store: Store, { sessionId }: SessionInfo): Promise<boolean> {
  const status = ["queued", "in_progress"] as const;
  return (await store.tasks({ sessionId, status, limit: 1 })).length > 0;
}

/** Calls `run` after a delay that does not keep the process alive; the returned function cancels it. */
function later(clock: Clock, ms: number, run: () => void): () => void {
  if (clock !== systemClock) return after(clock, ms, run);
  const timer = setTimeout(run, ms);
  timer.unref();
  return () => clearTimeout(timer);
}

type Work<T> = (signal: AbortSignal) => Promise<T>;
/** Work that was stopped rejects with one of these. */
const madeWay = new Error("Something is being forgotten.");
const closed = new Error("The agent was closed.");

/** Runs work with the same key one after the other, and at most `limit` at once. */
function inTurns(limit: number) {
  const last = new Map<string, Promise<unknown>>();
  const running = new Map<AbortController, string>();
  const waiting: (() => void)[] = [];

  async function withPlace<T>(key: string, run: Work<T>): Promise<T> {
    const end = new AbortController();
    running.set(end, key);
    if (running.size > limit) await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      end.signal.throwIfAborted();
      return await run(end.signal);
    } catch (error) {
      throw end.signal.aborted ? end.signal.reason : error;
    } finally {
      running.delete(end);
      waiting.shift()?.();
    }
  }
  return {
    add<T>(key: string, run: Work<T>): Promise<T> {
      const result = (last.get(key) ?? Promise.resolve()).then(() => withPlace(key, run));
      const settled = result.catch(() => {});
      last.set(key, settled);
      void settled.then(() => last.get(key) === settled && last.delete(key));
      return result;
    },
    /** Stops the work that runs or waits, of one key or of all. */
    stop(reason: Error, key?: string): void {
      for (const [end, at] of running) if (key === undefined || at === key) end.abort(reason);
    },
  };
}
