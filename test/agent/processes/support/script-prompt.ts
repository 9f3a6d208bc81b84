import type { LanguageModelV4Prompt } from "@ai-sdk/provider";
import type { Clock } from "../../../../src/base/clock.ts";
import { type ScriptedModel, type ScriptedTurn, scriptedModel } from "../../../../src/testing.ts";

const mark = "Play ";

/** A message that carries the replies of the model that reads it, so that any process gives the same ones. */
export function play(...turns: readonly ScriptedTurn[]): string {
  return mark + JSON.stringify(turns);
}

/** A model that gives the replies of the last `play` message in its prompt, then says `Done.`. */
export function promptModel(clock?: Pick<Clock, "sleep">): ScriptedModel {
  return scriptedModel(({ prompt }) => turnIn(prompt), clock && { clock });
}

function turnIn(prompt: LanguageModelV4Prompt): ScriptedTurn {
  for (const [index, message] of [...prompt.entries()].reverse()) {
    if (message.role !== "user") continue;
    const text = message.content.find((part) => part.type === "text" && part.text.startsWith(mark));
    if (text?.type !== "text") continue;
    const turns = JSON.parse(text.text.slice(mark.length)) as readonly ScriptedTurn[];
    const replies = prompt.slice(index).filter(({ role }) => role === "assistant").length;
    return turns[replies] ?? "Done.";
  }
  return "Nothing to play.";
}

/** A call that starts a background child with these replies. */
export function spawn(agent: string, ...turns: readonly ScriptedTurn[]) {
  const input = { agent_id: agent, task: play(...turns), timeout_seconds: 0 };
  return { call: "agent_spawn", input };
}

/** A call that runs a child with these replies and waits for it. */
export function delegate(agent: string, ...turns: readonly ScriptedTurn[]) {
  const input = { agent_id: agent, task: play(...turns), timeout_seconds: 600 };
  return { call: "agent_spawn", input };
}
