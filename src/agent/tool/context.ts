import type { Agent, Class, ContextLookup, Input, StandardSchema } from "../../protocol/agent.ts";
import type { ErrorShape } from "../../protocol/error.ts";
import type { Block, Message } from "../../protocol/message.ts";
import type { Progress, TaskMode, TaskStatus, Usage } from "../../protocol/task.ts";

/** What a tool gets besides its input. */
export interface ToolContext extends ContextLookup {
  /** Aborts when the task is cancelled or this attempt's time is over. */
  readonly signal: AbortSignal;
  /** The same on every attempt and after a crash: an idempotency key. */
  readonly callId: string;
  readonly taskId: string;
  readonly sessionId: string;
  readonly userId?: string;
  /** Counts from 1. */
  readonly attempt: number;
  readonly agent: { readonly name: string; readonly agentId: string };
  readonly messages: readonly Message[];
  /** Streams text, or a block, on this call's result; an image may be emitted again as a better one. */
  emit(chunk: string | Block): void;
  /** Tells how far it is; a report without a finite number is left out. */
  progress(progress: Progress): void;
  /** Ends the call without a result until one comes from outside. */
  suspend(reason: string): never;
  /** Runs an agent as a child task of this call, or goes on with the one that this call has started before. */
  runChild(agent: Agent, input: Input, options: ChildOptions): Promise<ChildOutcome>;
}

/** How a child is run. */
export interface ChildOptions {
  readonly agentId: string;
  /** Background: the call does not wait for it. */
  readonly mode?: TaskMode;
  readonly label?: string;
  /** How long the call waits for it; then it goes on in the background. For as long as it takes by default. */
  readonly timeoutMs?: number;
  /** Who it is. One that is known has had tasks, or may get several at once: they run one after the other. */
  readonly child?: {
    readonly sessionId: string;
    readonly agentKey: string;
    readonly isKnown: boolean;
  };
  /** The form of its answer. */
  readonly output?: StandardSchema;
}

/** What a child came to, or where it stands. */
export interface ChildOutcome {
  readonly status: TaskStatus;
  readonly mode: TaskMode;
  readonly taskId: string;
  readonly sessionId: string;
  readonly agentKey: string;
  readonly agentId: string;
  readonly label?: string;
  /** Its last message, in the numbers of the parent's references. */
  readonly reply?: Message & { readonly text: string };
  /** What that message cites, as the parent's model reads it. */
  readonly cited: readonly Block[];
  readonly structured?: unknown;
  readonly error?: ErrorShape;
  readonly usage?: Usage;
}

/** Values for tools, as a caller, an agent or a toolkit gives them. */
export type ContextValues = ContextLookup | Readonly<Record<string, unknown>>;

/** Values that tools find by type or by key. It never changes: `with` makes another one. */
export class ContextStore implements ContextLookup {
  /** The newest last. */
  #values: readonly ContextEntry[];

  constructor(values: Readonly<Record<string, unknown>> = {}) {
    this.#values = Object.entries(values).map(([key, value]) => ({ key, value }));
  }

  /** The same values and one more, which hides an older one of its key or its type. */
  with(instance: object): ContextStore;
  with(key: string, value: unknown): ContextStore;
  with(keyOrInstance: string | object, value?: unknown): ContextStore {
    const entry =
      typeof keyOrInstance === "string" ? { key: keyOrInstance, value } : { value: keyOrInstance };
    const others = this.#values.filter(({ key }) => key === undefined || key !== entry.key);
    const store = new ContextStore();
    store.#values = [...others, entry];
    return store;
  }

  get<T>(type: Class<T>): T | undefined;
  get<T>(key: string, type?: Class<T>): T | undefined;
  get<T>(keyOrType: string | Class<T>, type?: Class<T>): T | undefined {
    if (typeof keyOrType !== "string") return this.#byType(keyOrType);
    const value = this.#values.find(({ key }) => key === keyOrType)?.value;
    return type === undefined || value instanceof type ? (value as T | undefined) : undefined;
  }

  /** One of exactly this class comes before one of a class that extends it. */
  #byType<T>(type: Class<T>): T | undefined {
    const fitting = this.#values.flatMap(({ value }) => (value instanceof type ? [value] : []));
    const exact = fitting.findLast((value) => Object.getPrototypeOf(value) === type.prototype);
    return exact ?? fitting.at(-1);
  }
}
interface ContextEntry {
  readonly key?: string;
  readonly value: unknown;
}

/** Lays values over each other: the first that has one wins, so the call's come first, then the agent's, then the toolkit's. */
export function layerContext(...layers: readonly (ContextValues | undefined)[]): ContextLookup {
  const lookups = layers.flatMap((layer) => (layer === undefined ? [] : [lookupOf(layer)]));
  return {
    get<T>(keyOrType: string | Class<T>, type?: Class<T>): T | undefined {
      for (const lookup of lookups) {
        const value =
          typeof keyOrType === "string" ? lookup.get(keyOrType, type) : lookup.get(keyOrType);
        if (value !== undefined) return value;
      }
      return undefined;
    },
  };
}

/** The same values, whatever becomes of the object that held them. */
export function ownValues(values: ContextValues): ContextValues {
  return isLookup(values) ? values : Object.freeze({ ...values });
}

function lookupOf(values: ContextValues): ContextLookup {
  return isLookup(values) ? values : new ContextStore(values);
}

function isLookup(values: ContextValues): values is ContextLookup {
  return typeof values.get === "function";
}
