import { whenDone } from "../../base/time.ts";
import {
  type CompactionBlock,
  type Hook,
  type HookContext,
  type Message,
  textOf,
} from "../../contract/index.ts";
import { transcriptBehind } from "../hook-task.ts";
import { compactionTexts } from "../prompts.ts";
import { loadedNote } from "../skills/loads.ts";
import { changedNotes, type ModelView, type Note, type NoteSource, ViewState } from "./notes.ts";
import { firstTokens } from "./summary.ts";

const maxCarriedTokens = 2_000;

/** Keeps the model's view current: shortens it with `compactor`, and adds the notes that have changed or are out of view. */
export function contextHook(compactor: Hook | undefined, sources: readonly NoteSource[]): Hook {
  const all = [...sources, loadedNote, instructions, lastRequest];
  return {
    name: "context",
    priority: 10,
    preTurn(context, turn) {
      return whenDone(compactor?.preTurn?.(context, turn), (added) => {
        const compaction = added?.compaction;
        if (!compaction && turn.reason === "asked") return added;
        const view = ViewState.of(context, turn.offset);
        const next = compaction ? viewAfter(view, compaction, context.messages.length) : view;
        return whenDone(changedNotes(all, context, next), (hints) =>
          hints.length === 0 ? added : { ...added, hints },
        );
      });
    },
  };
}

function viewAfter(
  { offset, notes, askedAt, systemAt }: ModelView,
  block: Omit<CompactionBlock, "type">,
  compactedAt: number,
): ModelView {
  const compaction: CompactionBlock = { ...block, type: "compaction" };
  const from = block.keepFrom - offset;
  return { offset, notes, askedAt, systemAt, from, compaction, compactedAt, countedAt: -1 };
}

/** The user's last message, word for word, when it is out of view. */
function lastRequest(context: HookContext, { from, notes, askedAt }: ModelView): readonly Note[] {
  const key = "request";
  if (askedAt >= from) return [];
  const known = notes.get(key)?.text;
  const last = transcriptBehind(context)[askedAt];
  if (last === undefined) return known === undefined ? [] : [{ key, text: known }];
  const text = firstTokens(textOf(last.content), maxCarriedTokens);
  return text === "" ? [] : [{ key, text: compactionTexts.request(text) }];
}

/** The system messages of the session that are out of view: without this note they would be lost. */
function instructions(context: HookContext, { from, notes, systemAt }: ModelView): readonly Note[] {
  const key = "instructions";
  const known = notes.get(key)?.text;
  const messages = transcriptBehind(context);
  const texts = systemAt
    .filter((at) => at < from)
    .map((at) => firstTokens(textOf((messages[at] as Message).content), maxCarriedTokens))
    .filter((text) => text !== "" && !known?.includes(text));
  if (texts.length === 0) return known === undefined ? [] : [{ key, text: known }];
  return [{ key, text: [known ?? compactionTexts.instructions, ...texts].join("\n\n") }];
}
