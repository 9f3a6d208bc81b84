import { flattenModels, type Model, modelField, tellAnyway } from "../../agent/index.ts";
import { after, type Clock, systemClock } from "../../base/clock.ts";
import { reasonOf } from "../../base/error.ts";
import { createIds } from "../../base/id.ts";
import type { Fields } from "../../base/options.ts";
import * as is from "../../base/options.ts";
import { whenDone } from "../../base/time.ts";
import type { Hook, HookContext, SessionInfo, Store } from "../../contract/index.ts";
import type { Usage } from "../../protocol/index.ts";
import { askModel, commonOptions } from "../context/ask-model.ts";
import { fileSections, memoryContextFiles } from "../context/context-files.ts";
import type { NoteSource } from "../context/notes.ts";
import { type IsolationScope, scopeField, type TaskOwner } from "../filesystem/path.ts";
import type { Harness } from "../harness.ts";
import { memoryIntroduction } from "../prompts.ts";
import { memoryTools } from "../tools/memory.ts";
import { sessionTools } from "../tools/sessions.ts";
import { type FileView, openWorkspace } from "../workspace.ts";
import { consolidate, consolidatedAt } from "./consolidate.ts";
import { distill } from "./distill.ts";
import { type Forgotten, forget } from "./forget.ts";
import { memorySearch, type Passage } from "./search.ts";
import { type Work, workQueue } from "./work-queue.ts";

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

/** Work that was stopped rejects with one of these. */
const madeWay = new Error("Something is being forgotten.");
const closed = new Error("The agent was closed.");
const noteKey = "memory";
const maxParallel = 2;
const maxShownTokens = 4_000;
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
  const work = workQueue(maxParallel);

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

  /** Runs work of one scope after the other; again if it had to make way for `forget`. */
  async function inTurn<T>(key: string, run: Work<T>): Promise<T> {
    for (;;) {
      try {
        return await work.add(key, run);
      } catch (error) {
        if (error !== madeWay) throw error;
      }
    }
  }

  /** Runs work that no caller waits for. */
  function background(view: FileView, run: Work<void>): void {
    inTurn(view.key, run).catch((error: unknown) => {
      if (error !== closed) warn(`The memory was not updated: ${reasonOf(error)}`);
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

  const search = memorySearch(clock);

  const memory: AgentMemory = {
    scope,
    viewOf,
    note(context, view) {
      const shown = view.notes.get(noteKey);
      if (shown && shown.at >= view.from) return []; // a change is not shown before the next compaction
      return whenDone(sectionsIn(place.viewFor(context)), (sections) => {
        if (sections.length === 0) return [];
        const text = [memoryIntroduction, ...sections].join("\n\n");
        return [{ key: noteKey, text, isFixed: true }];
      });
    },
    search,
    async forget(owner, text) {
      const { key, files } = viewOf(owner);
      work.stop(madeWay, key);
      const sessions = () => sessionsOf(owner);
      return inTurn(key, () => forget({ store, agentId, files, scope: key, sessions }, text));
    },
    async flush(owner) {
      const view = viewOf(owner);
      await inTurn(view.key, async (signal) => {
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
