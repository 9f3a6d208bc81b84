import type { Connection } from "rivulet/client";
import type { Item, Tree } from "rivulet/protocol";

/** An interruption of the connection, while it lasts and for a moment after it. */
export interface Healing {
  readonly status: "held" | "healed";
  /** The number of the last event before the interruption. */
  readonly cursor: number;
  readonly downMs: number;
  /** Events that were skipped or came twice; the page counts them itself. */
  readonly lost: number;
  readonly repeated: number;
  /** The text of the open blocks when the connection broke, by task and index. */
  readonly texts: ReadonlyMap<string, string>;
  readonly brokeAt: number;
}

/** Shorter interruptions show nothing. */
const unseenMs = 400;
/** How long the marks of a healed interruption stay. */
const shownMs = 10_000;

/** Follows the interruptions of a log. */
export class Heals {
  healing: Healing | undefined;
  #brokeAt: number | undefined;
  #cursor = -1;
  #texts = new Map<string, string>();
  #lost = 0;
  #repeated = 0;

  /** Compares the number of an event with the one before it. */
  count(number: number, last: number): void {
    if (number <= last) this.#repeated += 1;
    else if (last >= 0) this.#lost += number - last - 1;
  }

  follow(connection: Connection, tree: Tree, last: number, onTimer: () => void): void {
    const { status } = connection;
    if (status === "reconnecting" && this.#brokeAt === undefined) {
      this.#brokeAt = Date.now();
      this.#cursor = last;
      this.#texts = openTexts(tree);
      this.#lost = 0;
      this.#repeated = 0;
      setTimeout(() => {
        if (this.#brokeAt !== undefined) this.#show("held");
        onTimer();
      }, unseenMs);
    } else if (this.#brokeAt !== undefined && connection.error && status === "closed") {
      this.#brokeAt = undefined;
      this.healing = undefined; // the error says why there is no more
    } else if (this.#brokeAt !== undefined && this.#isBack(connection, tree, last)) {
      const isShown = this.healing !== undefined;
      if (isShown) this.#show("healed");
      this.#brokeAt = undefined;
      const shown = this.healing;
      setTimeout(() => {
        if (this.healing !== shown && this.healing?.status !== "healed") return;
        this.healing = undefined;
        onTimer();
      }, shownMs);
    } else if (this.healing?.status === "healed") {
      const { lost, repeated } = this.healing;
      if (lost !== this.#lost || repeated !== this.#repeated)
        this.healing = { ...this.healing, lost: this.#lost, repeated: this.#repeated };
    }
  }

  /**
   * An agent that works again shows it with an event; a run that waits for a person, or has ended, sends none. A run that
   * ends at once closes the connection before the page sees it open.
   */
  #isBack({ status }: Connection, tree: Tree, last: number): boolean {
    if (status === "closed") return true;
    if (status !== "open") return false;
    const statuses = Object.values(tree.tasks).map(({ status }) => status);
    return last > this.#cursor || !statuses.some((it) => it === "queued" || it === "in_progress");
  }

  #show(status: Healing["status"]): void {
    const brokeAt = this.#brokeAt ?? Date.now();
    this.healing = {
      ...{ status, brokeAt, cursor: this.#cursor, downMs: Date.now() - brokeAt },
      ...{ lost: this.#lost, repeated: this.#repeated, texts: this.#texts },
    };
  }
}

/** The key of an item's text. */
export function textKey(taskId: string, index: number): string {
  return `${taskId}#${index}`;
}

function openTexts(tree: Tree): Map<string, string> {
  const texts = new Map<string, string>();
  for (const task of Object.values(tree.tasks)) {
    task.output.forEach((item, index) => {
      if (item.status === "in_progress") texts.set(textKey(task.id, index), shownText(item));
    });
  }
  return texts;
}

/** The text of an item that streams. */
export function shownText(item: Item): string {
  if (item.type === "reasoning")
    return (item.summary.length > 0 ? item.summary : (item.content ?? []))
      .map(({ text }) => text)
      .join("\n\n");
  if (item.type !== "message" && item.type !== "tool_result") return "";
  return item.block_list.map((block) => (block.type === "text" ? block.text : "")).join("");
}
