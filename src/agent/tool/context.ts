import type { ErrorShape } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Field, readArgument } from "../../base/options.ts";
import type {
  Agent,
  AnswerBlock,
  Block,
  Budget,
  Class,
  ContextLookup,
  Input,
  Message,
  StandardSchema,
} from "../../contract/index.ts";
import type {
  GenerateReason,
  Progress,
  TaskMode,
  TaskStatus,
  Usage,
} from "../../protocol/index.ts";

/** Values of all layers, found in their order. */
export interface LayeredContext extends ContextLookup {
  get<T>(type: Class<T>): Promise<T | undefined>;
  get<T>(key: string, type?: Class<T>): Promise<T | undefined>;
}

/** The second argument of `execute`. */
export interface ToolContext extends LayeredContext {
  /** Aborts when the task is cancelled or this attempt times out. */
  readonly signal: AbortSignal;
  /** Identical on every attempt and after a crash, so it can be an idempotency key. */
  readonly callId: string;
  readonly taskId: string;
  readonly sessionId: string;
  readonly userId?: string;
  /** Counts from 1. */
  readonly attempt: number;
  readonly agent: { readonly name: string; readonly agentId: string };
  readonly messages: readonly Message[];
  /** The rest of the limits of the task and of the tasks above it; undefined without limits. */
  budgetLeft(): Budget | undefined;
  /** Streams text or a block into this call's result; the next image replaces an image that is `partial`. */
  emit(chunk: string | Block, options?: { readonly partial?: boolean }): void;
  /** Reports progress; a report without a finite number is ignored. */
  progress(progress: Progress): void;
  /** Suspends the call until its result or, with `resume`, an answer comes from outside; the reason is shown to people. */
  suspend(reason?: string, options?: SuspendOptions): never;
  /** The answer to the question with which the call suspended itself before. */
  readonly resumed?: Resumed;
  /** Runs an agent as a child task of this call, or continues the child that this call has started before. */
  runChild(agent: Agent, input: Input, options: ChildOptions): Promise<ChildOutcome>;
}

/** The options of `suspend`. */
export interface SuspendOptions {
  /** The JSON Schema of the answer, for people who fill in a form. */
  readonly responseSchema?: Readonly<Record<string, unknown>>;
  /** Plain data that the tool needs to continue. With it the answer is not the result: the tool runs again and reads it. */
  readonly resume?: Readonly<Record<string, unknown>>;
}

/** The answer to a question of a call, which runs again. */
export interface Resumed {
  /** The `resume` of the question. */
  readonly resume: unknown;
  readonly answer: Pick<AnswerBlock, "decision" | "output" | "input" | "reason">;
}

/** The options of `runChild`. */
export interface ChildOptions {
  readonly agentId: string;
  /** `background`: the call does not wait for the child. */
  readonly mode?: TaskMode;
  readonly label?: string;
  /** How long the call waits before the child continues in the background; defaults to no limit. */
  readonly timeoutMs?: number;
  /** The child's identity; `isKnown`: it has had tasks or may get several at once, which run one after the other. */
  readonly child?: {
    readonly sessionId: string;
    readonly agentKey: string;
    readonly isKnown: boolean;
  };
  /** The schema of its answer. */
  readonly output?: StandardSchema;
  /** The limits of the child, within what is left here. */
  readonly budget?: Budget;
  /** While this many children of this session are at work, the child waits in the queue. */
  readonly maxParallel?: number;
}

/** The outcome of a child, or its current state. */
export interface ChildOutcome {
  readonly status: TaskStatus;
  readonly mode: TaskMode;
  readonly taskId: string;
  readonly sessionId: string;
  readonly agentKey: string;
  readonly agentId: string;
  readonly label?: string;
  /** Its last message; citations are renumbered for the parent. */
  readonly reply?: Message & { readonly text: string };
  /** The sources that the message cites, for the parent's model. */
  readonly cited: readonly Block[];
  readonly structured?: unknown;
  /** Why it has ended. */
  readonly generateReason?: GenerateReason;
  readonly error?: ErrorShape;
  readonly usage?: Usage;
}

/** Values for tools, from a caller, an agent or a toolkit. */
export type ContextValues = ContextLookup | Readonly<Record<string, unknown>>;

/** An immutable store of values that tools find by type or key. */
export class ContextStore implements ContextLookup {
  /** Ordered from oldest to newest. */
  #values: readonly { readonly key?: string; readonly value: unknown }[];

  constructor(values: Readonly<Record<string, unknown>> = {}) {
    this.#values = Object.entries(readArgument("values", values, is.recordOf(is.anything))).map(
      ([key, value]) => ({ key, value }),
    );
  }

  /** A copy with one more value, which hides an older value of the same key or type. */
  with(instance: object): ContextStore;
  with(key: string, value: unknown): ContextStore;
  with(keyOrInstance: string | object, value?: unknown): ContextStore {
    const entry =
      typeof keyOrInstance === "string" ? { key: keyOrInstance, value } : { value: keyOrInstance };
    const kept = this.#values.filter(({ key }) => key === undefined || key !== entry.key);
    const store = new ContextStore();
    store.#values = [...kept, entry];
    return store;
  }

  get<T>(type: Class<T>): T | undefined;
  get<T>(key: string, type?: Class<T>): T | undefined;
  get<T>(keyOrType: string | Class<T>, type?: Class<T>): T | undefined {
    readArgument("get()", keyOrType, is.required(keyField));
    readArgument("type", type, is.callback);
    if (typeof keyOrType !== "string") return this.#byType(keyOrType);
    const value = this.#values.find(({ key }) => key === keyOrType)?.value;
    return type === undefined || value instanceof type ? (value as T | undefined) : undefined;
  }

  /** Prefers an instance of the class itself to one of a subclass. */
  #byType<T>(type: Class<T>): T | undefined {
    const matches = this.#values.flatMap(({ value }) => (value instanceof type ? [value] : []));
    const exact = matches.findLast((value) => Object.getPrototypeOf(value) === type.prototype);
    return exact ?? matches.at(-1);
  }
}

/** Combines lookups; an earlier one takes precedence: the call's, then the agent's, then the toolkit's. */
export function layerContext(...layers: readonly (ContextValues | undefined)[]): LayeredContext {
  const lookups = layers
    .filter((layer) => layer !== undefined)
    .map((layer) => (isLookup(layer) ? layer : new ContextStore(layer)));
  return {
    async get<T>(keyOrType: string | Class<T>, type?: Class<T>): Promise<T | undefined> {
      for (const lookup of lookups) {
        const value = await (typeof keyOrType === "string"
          ? lookup.get(keyOrType, type)
          : lookup.get(keyOrType));
        if (value !== undefined) return value;
      }
      return undefined;
    },
  };
}

/** A copy of plain values, independent of later changes to the object. */
export function ownValues(values: ContextValues): ContextValues {
  return isLookup(values) ? values : Object.freeze({ ...values });
}

const keyField: Field = {
  fits: (value) => typeof value === "string" || typeof value === "function",
  expected: "a key or a class",
};
/** The rule for context values. */
export const contextField: Field = {
  ...is.record,
  fits: (value) => is.record.fits(value) && ownValues(value as ContextValues) !== undefined,
  example: '{ tenant: "acme" }',
};

function isLookup(values: ContextValues): values is ContextLookup {
  return typeof values.get === "function";
}
