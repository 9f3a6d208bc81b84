import { withoutCitable } from "./passages.ts";
import { callsOf, type MadeCall, type Move, offers, type View } from "./view.ts";

const childSeconds = 120;

/** The built-in subagent, a copy of its caller. */
export const generalPurpose = "general-purpose";

/** An agent that a system prompt offers. */
export type Member = { readonly name: string; readonly description: string };

/** The roles of the agents that a system prompt offers. */
export function teamIn(system: string) {
  const section = /^#+ .*\bsubagents\b.*$([\s\S]*?)(?=^#+ |$(?![\s\S]))/im.exec(system)?.[1] ?? "";
  const lines = section.matchAll(/^- [`*]*([A-Za-z0-9][\w-]*)[`*]*: *(.*)$/gm);
  const members = Array.from(lines, ([, name = "", description = ""]) => ({ name, description }));
  const background = members.find(({ description }) => /\bbackground\b/i.test(description));
  const others = members.filter((member) => member !== background);
  const searches = /research|search|find/i;
  const named = others.find(({ name }) => searches.test(name));
  const helpers = others.filter((member) => member !== named);
  const critic = findMember(helpers, /critic|check|verif/i)?.name;
  const writer = findMember(helpers, /writ|compos/i)?.name;
  const rest = helpers.filter(({ name }) => ![critic, writer, generalPurpose].includes(name));
  const researcher = (named ?? findMember(rest, searches) ?? rest[0])?.name;
  return { researcher, critic, writer, background };
}

/** A name says more about a role than a description. */
function findMember(members: readonly Member[], role: RegExp): Member | undefined {
  return (
    members.find(({ name }) => role.test(name)) ??
    members.find(({ description }) => role.test(description))
  );
}

/** The task of a critic. */
export function checkTask(claims: readonly string[]): string {
  const items = claims.map((claim) => `- ${claim}`);
  return ["Check that each of these claims is in the files.", ...items].join("\n");
}

/** Delegates a task to a member of the team that has not got it yet. */
export function delegate(
  view: View,
  agent: string | undefined,
  { task, thinking }: { readonly task: string; readonly thinking: string },
): Move | undefined {
  if (agent === undefined || spawnCalls(view, agent).some(({ input }) => input.task === task))
    return undefined;
  return { thinking, calls: [spawn(agent, task)] };
}

export function spawn(agent: string, task: string, seconds = childSeconds) {
  return { name: "agent_spawn", input: { agent_id: agent, task, timeout_seconds: seconds } };
}

export function spawnCalls(view: View, agent: string | undefined): readonly MadeCall[] {
  if (agent === undefined) return [];
  return callsOf(view, "agent_spawn").filter(({ input }) => input.agent_id === agent);
}

/** Returns the report of a child, also when it arrived later; "" while the child works. */
export function reportOf(view: View, call: MadeCall): string {
  if (!isOpen(call.output)) return call.output;
  const key = keyIn(call.output);
  const later = view.calls.slice(view.calls.indexOf(call) + 1).map(({ output }) => output);
  // One text may hold the reports of several children.
  const sections = [...later, ...view.notices].flatMap((text) => text.split(/^(?=agent_key: )/m));
  return sections.find((section) => keyIn(section) === key && !isOpen(section)) ?? "";
}

export function waitFor(view: View, calls: readonly MadeCall[]): Move | undefined {
  const waited = callsOf(view, "task_wait").flatMap(({ input }) => input.task_ids);
  const ids = calls
    .filter((call) => reportOf(view, call) === "")
    .flatMap(({ output }) => /^task_id: (\S+)$/m.exec(output)?.[1] ?? [])
    .filter((id) => !waited.includes(id));
  if (ids.length === 0 || !offers(view, "task_wait")) return undefined;
  return {
    thinking: "Some work is not finished yet. I wait for it.",
    calls: [{ name: "task_wait", input: { task_ids: ids, timeout_seconds: childSeconds } }],
  };
}

export function replyIn(report: string): string {
  const text = withoutCitable(report);
  const [, reply] = /^(?:reply|result):[ \n]?([\s\S]*)$/m.exec(text) ?? [];
  return (reply ?? text)
    .replace(/^(?:agent_key|agent_id|session_id|label|task_id|status): .*\n?/gm, "")
    .trim();
}

function keyIn(report: string): string | undefined {
  return /^agent_key: (\S+)$/m.exec(report)?.[1];
}

function isOpen(report: string): boolean {
  return /^status: (?:accepted|timeout_promoted|running|suspended)$/m.test(report);
}
