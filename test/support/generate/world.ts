import type { Envelope, LogEvent } from "../../../src/protocol/event.ts";
import type { Source } from "../../../src/protocol/source.ts";
import { sourceRef } from "../../../src/protocol/source.ts";
import type {
  BlockAddress,
  Item,
  TaskMode,
  TaskStatus,
  Usage,
} from "../../../src/protocol/task.ts";
import { isTerminal } from "../../../src/protocol/task.ts";
import type { Random } from "../random.ts";
import type { OpenItem } from "./open-item.ts";

type WithoutEnvelope<E> = E extends LogEvent ? Omit<E, keyof Envelope> : never;
/** An event before it is numbered. */
export type Draft = WithoutEnvelope<LogEvent>;
/** Makes the next event of a strand, at the moment it is sent. */
export type Move = () => Draft;

/** What a strand does next: say something, or wait. */
export type Step = Draft | Wait;
/** A strand stands still for a person, for the task's other strands, or for a child. */
export type Wait =
  | { readonly on: "answer" }
  | { readonly on: "strands" | Actor; readonly until: () => boolean };

/** One line of work within a task; a task has several while it runs tools in parallel. */
export interface Strand {
  readonly actor: Actor;
  readonly steps: Generator<Step, void, void>;
  /** Cleaning up after a cancel does not resume a suspended task. */
  readonly quiet: boolean;
  wait: Wait | undefined;
}

/** Something to cite: its number in this task, and the block it stands for. */
export interface PoolEntry {
  readonly number: number;
  readonly target: BlockAddress;
}

/** A task while it is being played. */
export interface Actor {
  readonly id: string;
  readonly agentId: string;
  readonly sessionId: string;
  readonly depth: number;
  readonly parent: Actor | undefined;
  /** The call and the item of the parent that this child hangs on. */
  readonly place: { readonly itemId: string; readonly outputIndex: number } | undefined;
  readonly remote: boolean;
  readonly source: Source | undefined;
  mode: TaskMode | undefined;
  status: TaskStatus | undefined;
  sent: number;
  /** What each index ended as; holes while an item is open. */
  readonly output: Item[];
  readonly open: Map<number, OpenItem>;
  nextIndex: number;
  readonly children: Actor[];
  /** The children whose end this task has told. */
  readonly finished: Set<Actor>;
  readonly pool: PoolEntry[];
  /** How many numbers of the pool are taken. */
  numbers: number;
  readonly approvals: Map<string, { decision: string | undefined }>;
  usage: Usage | undefined;
  /** Whether a cancel, or the loss of its executor, has begun to end it. */
  ending: boolean;
}

/** Everything that a tree under construction needs. */
export interface World {
  readonly random: Random;
  readonly maxDepth: number;
  readonly maxFanOut: number;
  /** How readily this team delegates, and how much it says: 1 is a lot, 0 nothing. */
  readonly temper: { readonly delegates: number; readonly talks: number };
  /** How many events may still be promised. */
  budget: number;
  readonly events: LogEvent[];
  readonly actors: Actor[];
  strands: Strand[];
  now: number;
  minted: number;
}

/** Sets `cost` events aside; false, and nothing set aside, when there are not as many left. */
export function charge(world: World, cost: number): boolean {
  if (world.budget < cost) return false;
  world.budget -= cost;
  return true;
}

/** A new id, in the order of creation. */
export function mint(world: World, prefix: string): string {
  return `${prefix}_${(world.minted++).toString(36).padStart(4, "0")}`;
}

/** Whether a task has ended. */
export function hasEnded(actor: Actor): boolean {
  return actor.status !== undefined && isTerminal(actor.status);
}

/** Adds a line of work. */
export function startStrand(
  world: World,
  actor: Actor,
  steps: Generator<Step, void, void>,
  quiet = false,
): void {
  world.strands.push({ actor, steps, quiet, wait: undefined });
}

/** Numbers a draft and puts it at the end of the log. */
export function emit(world: World, actor: Actor, draft: Draft): void {
  const { type, ...rest } = draft;
  world.now += world.random.int(0, 900);
  const source =
    actor.source === undefined || type === "task.created" ? actor.source : sourceRef(actor.source);
  world.events.push({
    type,
    task_id: actor.id,
    sequence_number: world.events.length,
    task_seq: actor.sent++,
    created_at: world.now,
    ...(source !== undefined && { source }),
    ...rest,
  } as LogEvent);
  follow(actor, draft);
}

/** The sender's own book-keeping of where its task stands. */
function follow(actor: Actor, draft: Draft): void {
  switch (draft.type) {
    case "task.created":
      actor.status = "queued";
      break;
    case "task.in_progress":
    case "task.resumed":
      actor.status = "in_progress";
      break;
    case "task.suspended":
      actor.status = "suspended";
      break;
    case "task.completed":
    case "task.failed":
    case "task.cancelled":
    case "task.incomplete":
      actor.status = draft.task.status;
      break;
    default:
      break;
  }
}
