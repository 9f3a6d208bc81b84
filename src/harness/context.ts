import type { Hook, HookContext } from "../agent/loop/hooks.ts";
import { type CompactionBlock, type Message, textOf } from "../protocol/message.ts";
import { changedNotes, type ModelView, type Note, type NoteSource, ViewState } from "./notes.ts";
import { compactionTexts } from "./prompts.ts";
import { loadedNote } from "./skills/loads.ts";
import { firstTokens } from "./summary.ts";

const maxCarriedTokens = 2_000;

/** Keeps the model's view current: shortens it with `compactor`, and adds the notes that have changed or are out of view. */
export function contextHook(compactor: Hook | undefined, sources: readonly NoteSource[]): Hook {
  const all = [...sources, loadedNote, instructions, lastRequest];
  return {
    name: "context",
    priority: 10,
    async preTurn(context, turn) {
      const added = (await compactor?.preTurn?.(context, turn)) ?? {};
      const { compaction } = added;
      if (!compaction && turn.reason === "asked") return added;
      const view = ViewState.of(context, turn.offset);
      const next = compaction ? viewAfter(view, compaction, context.messages.length) : view;
      const hints = await changedNotes(all, context, next);
      const isNothing = hints.length === 0 && Object.keys(added).length === 0;
      return isNothing ? undefined : { ...added, hints };
    },
  };
}

function viewAfter(
  { offset, notes }: ModelView,
  block: Omit<CompactionBlock, "type">,
  compactedAt: number,
): ModelView {
  const compaction: CompactionBlock = { ...block, type: "compaction" };
  return { offset, notes, from: block.keepFrom - offset, compaction, compactedAt };
}

/** The user's last message, word for word, when it is out of view. */
function lastRequest({ messages }: HookContext, { from, notes }: ModelView): readonly Note[] {
  const key = "request";
  const isInput = ({ role, metadata }: Message) => role === "user" && metadata?.input === true;
  const last = messages.findLastIndex(isInput);
  if (last >= from) return [];
  const known = notes.get(key)?.text;
  if (last < 0) return known === undefined ? [] : [{ key, text: known }];
  const text = firstTokens(textOf((messages[last] as Message).content), maxCarriedTokens);
  return text === "" ? [] : [{ key, text: compactionTexts.request(text) }];
}

/** The system messages of the session that are out of view: without this note they would be lost. */
function instructions({ messages }: HookContext, { from, notes }: ModelView): readonly Note[] {
  const key = "instructions";
  const known = notes.get(key)?.text;
  const texts = messages
    .filter(({ role }, at) => role === "system" && at < from)
    .map(({ content }) => firstTokens(textOf(content), maxCarriedTokens))
    .filter((text) => text !== "" && !known?.includes(text));
  if (texts.length === 0) return known === undefined ? [] : [{ key, text: known }];
  return [{ key, text: [known ?? compactionTexts.instructions, ...texts].join("\n\n") }];
}
