import { errorWithoutSecrets, hideSecrets, mapStrings, secretTail } from "../base/secrets.ts";
import { invalidEvent, type RemoteLink } from "../contract/index.ts";
import type { LogEvent, TaskEvent } from "../protocol/index.ts";

/** How many events wait for the rest of a text; a server that sends more ends its own child. */
const maxHeld = 10_000;

/**
 * The same link, except that nothing that comes from its server contains a secret of the link: not its events, its errors,
 * its ids or its blobs. `secretsOf` returns the secrets that were sent so far.
 */
export function withoutSecrets(link: RemoteLink, secretsOf: () => readonly string[]): RemoteLink {
  const hide = (text: string) => hideSecrets(secretsOf(), text);
  const safely = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      throw errorWithoutSecrets(secretsOf(), error);
    });
  const { url, limits, budget, enforcesBudget } = link;
  return {
    ...(url !== undefined && { url: hide(url) }),
    limits,
    ...(budget && { budget }),
    ...(enforcesBudget && { enforcesBudget }),
    start: async (...args) => hide(await safely(link.start(...args))),
    async *events(...args) {
      try {
        yield* hiddenEvents(link.events(...args), secretsOf);
      } catch (error) {
        throw errorWithoutSecrets(secretsOf(), error);
      }
    },
    answer: (...args) => safely(link.answer(...args)),
    steer: (...args) => safely(link.steer(...args)),
    cancel: (...args) => safely(link.cancel(...args)),
    ...(link.blob && {
      async blob(...args) {
        const bytes = await safely(link.blob?.(...args) ?? Promise.resolve(undefined));
        // A blob is named after its content, so it cannot be changed.
        const text = bytes && new TextDecoder("latin1").decode(bytes);
        return text === undefined || hide(text) === text ? bytes : undefined;
      },
    }),
  };
}

interface Queued {
  event: TaskEvent;
  /** Its text may end with the beginning of a secret. */
  isHeld: boolean;
}

/**
 * The events in their order. A text may bring a secret in pieces: an event whose text may end with the beginning of one
 * is held, takes the text of the next events of its part, and is released when its end is known.
 */
async function* hiddenEvents(
  events: AsyncIterable<TaskEvent>,
  secretsOf: () => readonly string[],
): AsyncGenerator<TaskEvent, void, undefined> {
  const queue: Queued[] = [];
  const held = new Map<string, Queued>();
  const hide = (text: string) => hideSecrets(secretsOf(), text);
  for await (const event of events) {
    const { delta } = event as { readonly delta?: unknown };
    const part = partOf(event);
    if (typeof delta === "string") {
      const known = held.get(part);
      const first: Queued = known ?? { event: mapStrings(event, hide), isHeld: false };
      const before = known ? (known.event as { delta: string }).delta : "";
      const text = hide(before + delta);
      first.event = { ...first.event, delta: text } as TaskEvent;
      first.isHeld = secretTail(secretsOf(), text) > 0;
      queue.push(known ? { event: { ...event, delta: "" } as TaskEvent, isHeld: false } : first);
      if (first.isHeld) held.set(part, first);
      else held.delete(part);
    } else {
      // The end of a part, or anything else about its task: no text of it follows that completes a secret.
      for (const [place, entry] of held) {
        if (!place.startsWith(itemOf(event))) continue;
        entry.isHeld = false;
        held.delete(place);
      }
      queue.push({ event: mapStrings(event, hide), isHeld: false });
    }
    if (queue.length > maxHeld)
      throw invalidEvent(event as LogEvent, "too many events follow a text that has not ended");
    for (let next = queue[0]; next && !next.isHeld; next = queue[0]) {
      queue.shift();
      yield next.event;
    }
  }
  for (const { event } of queue) yield event;
}

type Place = Readonly<Partial<Record<string, string | number>>>;

/** The task and the item of an event; the task alone if it has no item. */
function itemOf(event: TaskEvent): string {
  const { task_id = "", output_index } = event as unknown as Place;
  return output_index === undefined ? `${task_id} ` : `${task_id} ${output_index} `;
}

/** The part of an item that a text belongs to. */
function partOf(event: TaskEvent): string {
  const place = event as unknown as Place;
  const { block_index, summary_index, content_index } = place;
  return `${itemOf(event)}${event.type} ${block_index ?? summary_index ?? content_index ?? 0}`;
}
