import type { Awaitable } from "../../base/time.ts";
import { allDone, whenDone } from "../../base/time.ts";
import type { CompactionBlock, HintBlock, HookContext, Message } from "../../contract/index.ts";
import { transcriptBehind } from "../hook-task.ts";

/** What the model sees of the messages of a session. */
export interface ModelView {
  /** The index of the first loaded message in the session. */
  readonly offset: number;
  /** The index of the first visible message among the loaded ones. */
  readonly from: number;
  /** The last compaction, whose summary precedes the visible messages. */
  readonly compaction?: CompactionBlock | undefined;
  /** The index of the message of the last compaction among the loaded ones; -1 without one. */
  readonly compactedAt: number;
  /** The index of the agent's last message with a provider's count of its prompt, after the compaction; -1 without one. */
  readonly countedAt: number;
  /** The index of the user's last message among the loaded ones; -1 without one. */
  readonly askedAt: number;
  /** The indexes of the loaded system messages. */
  readonly systemAt: readonly number[];
  /** The last text of each note, by key, with the index of its message among the loaded ones. */
  readonly notes: ReadonlyMap<string, ShownNote>;
}

/** The tokens of messages, extended by those that are new. */
interface TokenSum {
  readonly start: number;
  readonly compaction: CompactionBlock | undefined;
  end: number;
  tokens: number;
}

/** A note as the model last saw it. */
interface ShownNote {
  readonly text: string;
  readonly at: number;
}

/**
 * A text about something that changes, such as unfinished tasks. It is stored after the messages whenever it differs from
 * the last text with the same key, so that the beginning of the prompt stays the same.
 */
export interface Note {
  readonly key: string;
  readonly text: string;
  /** True: the text says that there is nothing, so it is only shown after another one. */
  readonly isEmpty?: boolean;
  /** True: a changed text is not shown before the next compaction. */
  readonly isFixed?: boolean;
}

/** Returns the current notes about one thing; called before each model call and in each compaction. */
export type NoteSource = (context: HookContext, view: ModelView) => Awaitable<readonly Note[]>;

/** The view and the notes of a transcript, kept up to date: each read continues after the messages of the last one. */
export class ViewState implements ModelView {
  readonly offset: number;
  from = 0;
  compaction: CompactionBlock | undefined;
  compactedAt = -1;
  countedAt = -1;
  askedAt = -1;
  readonly systemAt: number[] = [];
  readonly notes = new Map<string, ShownNote>();
  /** The last estimate of the prompt. */
  sum: TokenSum | undefined;
  #read = 0;

  constructor(offset: number) {
    this.offset = offset;
  }

  /** The state of a task; it lasts for one run. */
  static of(context: HookContext, offset: number): ViewState {
    const { state, agent } = context;
    const known = state.get(stateKey);
    const view = known instanceof ViewState ? known : new ViewState(offset);
    state.set(stateKey, view);
    view.#update(transcriptBehind(context), agent);
    return view;
  }

  #update(messages: readonly Message[], agent: string): void {
    for (; this.#read < messages.length; this.#read++) {
      const { role, name, usage, metadata, content } = messages[this.#read] as Message;
      if (role === "system") this.systemAt.push(this.#read);
      if (role === "user" && metadata?.input === true) this.askedAt = this.#read;
      if (role === "assistant" && name === agent && usage && usage.input_tokens > 0)
        this.countedAt = this.#read;
      for (const block of content) {
        if (block.type === "compaction") {
          this.compaction = block;
          this.compactedAt = this.#read;
          this.countedAt = -1;
          this.from = Math.max(0, Math.min(block.keepFrom - this.offset, this.#read));
        }
        const key = block.type === "hint" ? block.metadata?.note : undefined;
        if (block.type === "hint" && typeof key === "string")
          this.notes.set(key, { text: block.text, at: this.#read });
      }
    }
  }
}

const stateKey = "harness.view";

/** The hints for notes that the model does not see in their current form after the messages from `view.from` on. */
export function changedNotes(
  sources: readonly NoteSource[],
  context: HookContext,
  view: ModelView,
): Awaitable<readonly HintBlock[]> {
  return whenDone(allDone(sources.map((source) => source(context, view))), (notes) =>
    notes.flat().flatMap(({ key, text, isEmpty, isFixed }) => {
      const last = view.notes.get(key);
      const isVisible = last !== undefined && last.at >= view.from;
      const isShown = isVisible ? last.text === text || isFixed : isEmpty;
      return isShown ? [] : [{ type: "hint", text, metadata: { note: key } } as const];
    }),
  );
}
