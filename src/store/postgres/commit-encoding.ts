import type { Commit, Lease, Post, SessionAppend, TaskRecord } from "../../contract/index.ts";
import { isTerminal, type TaskEvent } from "../../protocol/index.ts";
import { approvalChanges, sessionTitle, visibleFrom } from "../session-facts.ts";
import { targetOf } from "../task-queue.ts";
import { Body, type Place } from "./body.ts";
import { assertStorable, isStorable } from "./ids.ts";
import { wordsVector } from "./search-words.ts";

/** A reader decodes whole rows, so rows are small: reading one event must not decode thousands. */
export const maxEvents = 256;
const maxCharacters = 64 * 1024;

/** The first byte of a row of events, before a JSON array. */
export const jsonFormat = "\u0001";

/** A row of events in a body. */
export interface Batch {
  readonly count: number;
  readonly place: Place;
}

/** A commit as the database gets it; later changes to the caller's objects do not affect it. */
export interface EncodedCommit {
  readonly lease: Lease;
  readonly log: string;
  readonly events: readonly TaskEvent[];
  readonly batches: readonly Batch[];
  readonly body: Buffer;
  /** All parts but the batches, the lease and the log; undefined if there are none. */
  readonly parts: Readonly<Record<string, unknown>> | undefined;
  /** The sessions and tasks to wake when it is written. */
  readonly touched: readonly (readonly [kind: "session" | "task", id: string])[];
  readonly hasEnded: boolean;
}

/** Encodes every part; throws before anything is written when a part cannot be encoded. */
export function encodeCommit(commit: Commit): EncodedCommit {
  const {
    lease,
    log,
    events = [],
    appends = [],
    tasks = [],
    posts = [],
    taken = [],
    begins,
  } = commit;
  assertStorable(lease.sessionId, log, begins, ...taken);
  const parts = appends.length + tasks.length + posts.length + taken.length;
  if (parts === 0 && begins === undefined) return encodeAppended(lease, log, events);
  const body = new Body();
  const batches = encodeEvents(events, body);
  const appended = new Set(appends.map(({ sessionId }) => sessionId));
  const hasEnded = tasks.some(({ status }) => isTerminal(status));
  const encoded = {
    ...(tasks.length > 0 && {
      tasks: tasks.map((record) => encodeTask(record, body, !appended.has(record.sessionId))),
    }),
    ...(begins !== undefined && { begins }),
    ...(hasEnded && { ended: true }),
    ...(appends.length > 0 && {
      appends: appends.map((append) => encodeAppend(append, body)),
    }),
    ...(posts.length > 0 && { posts: posts.map((post) => encodePost(post, body)) }),
    ...(taken.length > 0 && { taken }),
  };
  const touched = [
    ...tasks.flatMap(({ taskId, sessionId }) => [
      ["task", taskId] as const,
      ["session", sessionId] as const,
    ]),
    ...appends.map(({ sessionId }) => ["session", sessionId] as const),
  ];
  return {
    ...{ lease, log, events, batches, touched, hasEnded, parts: encoded },
    body: body.toBuffer(),
  };
}

const nothing: readonly never[] = [];

/** Encodes a commit of events alone, which nearly all commits are. */
function encodeAppended(lease: Lease, log: string, events: readonly TaskEvent[]): EncodedCommit {
  const rest = { parts: undefined, touched: nothing, hasEnded: false };
  if (events.length > 0 && events.length <= maxEvents) {
    const text = JSON.stringify(events);
    const bytes = text.length < maxCharacters ? Buffer.from(jsonFormat + text) : undefined;
    const batches = bytes && [{ count: events.length, place: [0, bytes.length] as const }];
    if (batches) return { lease, log, events, batches, body: bytes, ...rest };
  }
  const body = new Body();
  const batches = encodeEvents(events, body);
  return { lease, log, events, batches, body: body.toBuffer(), ...rest };
}

/** Adds events to a body: one row, or several when they are many or large. */
function encodeEvents(events: readonly TaskEvent[], body: Body): readonly Batch[] {
  const batches: Batch[] = [];
  let texts: string[] = [];
  let characters = 0;
  const finish = () => {
    if (texts.length === 0) return;
    const place = body.add(`${jsonFormat}[${texts.join()}]`);
    batches.push({ count: texts.length, place });
    texts = [];
    characters = 0;
  };
  for (const event of events) {
    const text = JSON.stringify(event);
    texts.push(text);
    characters += text.length;
    if (texts.length >= maxEvents || characters >= maxCharacters) finish();
  }
  finish();
  return batches;
}

function encodeAppend({ sessionId, at, messages }: SessionAppend, body: Body) {
  assertStorable(sessionId);
  const due = approvalChanges(messages).map(({ approvalId, dueAt }) => [
    JSON.stringify(approvalId),
    dueAt ?? null,
  ]);
  const words = messages
    .map(wordsVector)
    .map((vector) => (vector === "" ? null : body.add(vector)));
  return {
    session: sessionId,
    at,
    messages: messages.map((message) => body.add(JSON.stringify(message))),
    words,
    ...(due.length > 0 && { due }),
    title: sessionTitle(messages),
    visibleFrom: visibleFrom(messages, at),
  };
}

/** A record for the functions of the schema; `touch`: it changes the date of its session. */
export function encodeTask(record: TaskRecord, body: Body, touch = true) {
  const { taskId, rootTaskId, sessionId, parentSessionId, userId, agentId, status } = record;
  const { agentVersion, place, priority } = record;
  assertStorable(taskId, rootTaskId, sessionId, parentSessionId, userId, agentId);
  assertStorable(agentVersion, place);
  return {
    id: taskId,
    root: rootTaskId,
    session: sessionId,
    parent: parentSessionId,
    user: userId,
    agent: agentId,
    version: agentVersion,
    place,
    priority,
    status,
    output: Math.trunc(record.committedOutput),
    touch,
    record: body.add(JSON.stringify(record)),
  };
}

/** A row of an inbox for the functions of the schema. */
export function encodePost(post: Post, body: Body) {
  const { id, sessionId, rootTaskId, kind } = post;
  const task = targetOf(post);
  assertStorable(id, sessionId, rootTaskId, post.taskId, kind);
  return {
    id,
    session: sessionId,
    root: rootTaskId,
    // The message may name any task, and this one does not exist.
    task: task === undefined || isStorable(task) ? task : "",
    kind,
    post: body.add(JSON.stringify(post)),
  };
}
