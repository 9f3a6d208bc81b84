import { withoutCitable } from "./passages.ts";
import { callsOf, type MadeCall, type Move, offers, type View } from "./view.ts";

const childSeconds = 120;

/** A call that hands a task to an agent; with 0 seconds it is done in the background. */
export function spawn(agent: string, task: string, seconds = childSeconds) {
  return { name: "agent_spawn", input: { agent_id: agent, task, timeout_seconds: seconds } };
}

/** The tasks that were handed to an agent. */
export function spawned(view: View, agent: string | undefined): readonly MadeCall[] {
  return callsOf(view, "agent_spawn").filter(({ input }) => input.agent_id === agent);
}

/** All that has come of a task: at once, or later when it went on in the background. */
export function reportOf(view: View, call: MadeCall): string {
  const id = backgroundId(call);
  return id === undefined ? call.output : laterTexts(view, call, id).join("\n");
}

/** Waits for those of the tasks that are not done, unless that was tried before. */
export function waitFor(view: View, calls: readonly MadeCall[]): Move | undefined {
  const waited = callsOf(view, "task_wait").flatMap(({ input }) => input.task_ids);
  const ids = calls
    .filter((call) => reportOf(view, call) === "")
    .flatMap((call) => backgroundId(call) ?? [])
    .filter((id) => !waited.includes(id));
  if (ids.length === 0 || !offers(view, "task_wait")) return undefined;
  return {
    thinking: "Something is not done yet. I wait for it.",
    calls: [{ name: "task_wait", input: { task_ids: ids, timeout_seconds: childSeconds } }],
  };
}

/** What an agent has said, without the lines that say who it was and without what it cites. */
export function replyIn(report: string): string {
  const said = withoutCitable(report);
  const [, reply] = /^(?:reply|result):[ \n]?([\s\S]*)$/m.exec(said) ?? [];
  return (reply ?? said)
    .replace(/^(?:agent_key|agent_id|session_id|task_id|status): .*\n?/gm, "")
    .trim();
}

/** The id of a task that goes on, or went on, in the background. */
function backgroundId({ output }: MadeCall): string | undefined {
  if (!/^status: (?:accepted|timeout_promoted)$/m.test(output)) return undefined;
  return /^task_id: (\S+)$/m.exec(output)?.[1];
}

function laterTexts(view: View, call: MadeCall, id: string): readonly string[] {
  const later = view.calls.slice(view.calls.indexOf(call) + 1).map(({ output }) => output);
  return [...later, ...view.told].filter((text) => text.includes(id));
}
