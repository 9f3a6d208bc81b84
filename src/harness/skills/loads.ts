import { isObject } from "../../base/plain.ts";
import type { Block, HookContext } from "../../contract/index.ts";
import type { NoteSource } from "../context/notes.ts";
import { transcriptBehind } from "../hook-task.ts";
import { skillsNote } from "../prompts.ts";
import { loadSkillName } from "../tools/skills.ts";
import { skillPathName } from "./load.ts";

/** A call that gave the instructions of a skill to the model. */
interface Load {
  readonly name: string;
  readonly callId: string;
  readonly taskId: string | undefined;
  /** The index of its result among the messages. */
  readonly at: number;
}

const stateKey = "harness.skill-loads";

/** The loads in a transcript, kept up to date: each read continues after the messages of the last one. */
class Loads {
  readonly all: Load[] = [];
  readonly #open = new Map<string, Pick<Load, "name" | "taskId">>();
  #read = 0;

  update(context: HookContext): void {
    const messages = transcriptBehind(context);
    for (; this.#read < messages.length; this.#read++) {
      const { content = [], metadata } = messages[this.#read] ?? {};
      for (const block of content) {
        const name = skillIn(block);
        if (block.type === "tool_use" && name !== undefined) {
          this.#open.set(block.id, { name, taskId: metadata?.taskId });
        }
        const load = block.type === "tool_result" ? this.#open.get(block.id) : undefined;
        if (block.type !== "tool_result" || !load || block.state !== "success") continue;
        this.all.push({ ...load, callId: block.id, at: this.#read });
      }
    }
  }
}

/** The skill that a call loads, with the tool or by reading its file. */
function skillIn(block: Block): string | undefined {
  if (block.type !== "tool_use" || !isObject(block.input)) return undefined;
  const { name, path } = block.input;
  if (block.name === loadSkillName && typeof name === "string") return name;
  return block.name === "read_file" && typeof path === "string" ? skillPathName(path) : undefined;
}

/** The loads in the messages of a session, oldest first. */
export function loadsIn(context: HookContext): readonly Load[] {
  const known = context.state.get(stateKey);
  const loads = known instanceof Loads ? known : new Loads();
  context.state.set(stateKey, loads);
  loads.update(context);
  return loads.all;
}

/** Names the skills that the model has loaded and that a compaction has taken out of its view. */
export const loadedNote: NoteSource = (context, { from, compaction, notes }) => {
  if (!compaction) return [];
  const key = "skills";
  const names = new Set(skillsNote.names(notes.get(key)?.text ?? ""));
  for (const { name, at, callId } of loadsIn(context)) {
    const isVisible = at >= from && !Object.hasOwn(compaction.pruned ?? {}, callId);
    if (isVisible) names.delete(name);
    else names.add(name);
  }
  return names.size === 0 ? [] : [{ key, text: skillsNote.text([...names].sort()) }];
};
