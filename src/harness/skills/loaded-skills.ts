import type { HookContext } from "../../agent/loop/hooks.ts";
import type { Message } from "../../protocol/message.ts";
import type { ModelView, Note } from "../notes.ts";
import { loadedSkillsIntroduction } from "../prompts.ts";
import { loadSkillName } from "../tools/skills.ts";

const key = "skills";

/** Names the skills whose instructions the model has loaded and can no longer see. */
export function loadedSkillsNote(
  { messages }: HookContext,
  { from, notes }: ModelView,
): readonly Note[] {
  const shown = notes.get(key);
  const known = shown?.text.split("\n").flatMap((line) => /^- (.+)$/.exec(line)?.[1] ?? []) ?? [];
  const names = new Set(known);
  const visible = new Set<string>();
  for (let at = shown?.at ?? 0; at < messages.length; at++)
    for (const block of (messages[at] as Message).content) {
      if (block.type !== "tool_use" || block.name !== loadSkillName) continue;
      const { name, path } = block.input as { readonly name?: unknown; readonly path?: unknown };
      if (typeof name !== "string" || path !== undefined) continue;
      if (at >= from) visible.add(name);
      else names.add(name);
    }
  const missing = [...names].filter((name) => !visible.has(name));
  if (missing.length === 0) return [];
  return [
    { key, text: [loadedSkillsIntroduction, ...missing.map((name) => `- ${name}`)].join("\n") },
  ];
}
