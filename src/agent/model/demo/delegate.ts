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

/** What a task has come to: at once, or later when it went on in the background. Empty while it goes on. */
export function reportOf(view: View, call: MadeCall): string {
  if (!isOpen(call.output)) return call.output;
  const key = keyIn(call.output);
  const later = view.calls.slice(view.calls.indexOf(call) + 1).map(({ output }) => output);
  // A text may tell of several agents, one after the other.
  const sections = [...later, ...view.told].flatMap((text) => text.split(/^(?=agent_key: )/m));
  return sections.find((section) => keyIn(section) === key && !isOpen(section)) ?? "";
}

/** Waits for those of the tasks that are not done, unless that was tried before. */
export function waitFor(view: View, calls: readonly MadeCall[]): Move | undefined {
  const waited = callsOf(view, "task_wait").flatMap(({ input }) => input.task_ids);
  const ids = calls
    .filter((call) => reportOf(view, call) === "")
    .flatMap(({ output }) => /^task_id: (\S+)$/m.exec(output)?.[1] ?? [])
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
    .replace(/^(?:agent_key|agent_id|session_id|label|task_id|status): .*\n?/gm, "")
    .trim();
}

function keyIn(report: string): string | undefined {
  return /^agent_key: (\S+)$/m.exec(report)?.[1];
}

function isOpen(report: string): boolean {
  return /^status: (?:accepted|timeout_promoted|running|suspended)$/m.test(report);
}
