import { fillInput } from "./fallback.ts";
import {
  cite,
  type Evidence,
  evidenceIn,
  findingsIn,
  sentencesOf,
  withoutCitable,
  withoutFrame,
} from "./passages.ts";
import { nothingFound, scoreSentence } from "./research.ts";
import { callsOf, type MadeCall, type Move, type OfferedTool, offers, type View } from "./view.ts";
import { normalizeText, partsOf, stemsOf, termsOf } from "./words.ts";

const childSeconds = 120;

type Member = { readonly name: string; readonly description: string };

/** A part of the question that a researcher got, and its report; "" while the researcher works. */
type Search = { readonly part: string; readonly report: string };

/** Leads a team: delegates the parts of a question, has the findings checked and written up, and answers. */
export function lead(view: View): Move | undefined {
  if (!offers(view, "agent_spawn")) return undefined;
  const { researcher, critic, writer, background } = teamIn(view.system);
  const calls = spawnCalls(view, researcher);
  if (calls.length === 0) return delegateParts(view, researcher, background);
  const searches = calls.map((call) => ({
    part: String(call.input.task).replace(/\? .*$/s, "?"), // without the advice of `partsOf`
    report: reportOf(view, call),
  }));
  const evidence = evidenceIn(view);
  const notes = notesOf(searches, evidence);
  const claims = notes.flatMap(({ sentences }) => sentences).map((claim) => `- ${claim}`);
  const check = ["Check that each of these claims is in the files.", ...claims].join("\n");
  const filled = notes.filter(({ sentences }) => sentences.length > 0);
  const writing = notesTask(view.question, filled);
  const text = writtenText(view, writer, evidence) ?? writeParagraphs(notes);
  const side = spawnCalls(view, background?.name);
  const sideNotes = side.flatMap((call) => {
    const line = replyIn(reportOf(view, call)).split("\n", 1)[0] ?? "";
    return line === "" ? [] : [`From ${background?.name}: ${line}`];
  });
  return (
    waitFor(view, calls) ??
    (evidence.length === 0 ? say(noAnswer(searches), ...sideNotes) : undefined) ??
    delegate(view, critic, check, `${claims.length} findings. ${critic} checks them first.`) ??
    delegate(view, writer, writing, `The findings hold. ${writer} writes the text.`) ??
    publish(view, text, evidence) ??
    waitFor(view, side) ??
    say(cite(text, evidence), ...unanswered(searches), ...publishNote(view), ...sideNotes)
  );
}

function say(...paragraphs: readonly string[]): Move {
  return { text: paragraphs.join("\n\n") };
}

function teamIn(system: string) {
  const section = /^#+ .*\bsubagents\b.*$([\s\S]*?)(?=^#+ |$(?![\s\S]))/im.exec(system)?.[1] ?? "";
  const lines = section.matchAll(/^- [`*]*([A-Za-z0-9][\w-]*)[`*]*: *(.*)$/gm);
  const members = Array.from(lines, ([, name = "", description = ""]) => ({ name, description }));
  const background = members.find(({ description }) => /\bbackground\b/i.test(description));
  const others = members.filter((member) => member !== background);
  const critic = findMember(others, /critic|check|verif/i)?.name;
  const writer = findMember(others, /writ|compos/i)?.name;
  const rest = others.filter(({ name }) => name !== critic && name !== writer);
  const researcher = findMember(rest, /research|search|find/i) ?? rest[0];
  return { researcher: researcher?.name ?? "general-purpose", critic, writer, background };
}

/** A name says more about a role than a description. */
function findMember(members: readonly Member[], role: RegExp): Member | undefined {
  return (
    members.find(({ name }) => role.test(name)) ??
    members.find(({ description }) => role.test(description))
  );
}

function delegateParts(view: View, researcher: string, background: Member | undefined): Move {
  if (termsOf(view.question).length === 0) {
    return say("I need a question with words that I can search for.");
  }
  const parts = partsOf(view.question);
  const side = background ? [spawn(background.name, background.description, 0)] : [];
  const meanwhile = background ? ` Meanwhile ${background.name} works in the background.` : "";
  return {
    thinking: `I split this into ${parts.length} parts for ${researcher} to research in parallel.${meanwhile}`,
    calls: [...parts.map((part) => spawn(researcher, part)), ...side],
  };
}

/** Delegates a task to a member of the team that has none yet. */
function delegate(view: View, agent: string | undefined, task: string, thinking: string) {
  if (agent === undefined || spawnCalls(view, agent).length > 0) return undefined;
  return { thinking, calls: [spawn(agent, task)] };
}

/** Returns the writer's text if it has a sentence from the evidence. */
function writtenText(view: View, writer: string | undefined, evidence: readonly Evidence[]) {
  const statements = new Set(evidence.map(({ statement }) => normalizeText(statement)));
  const isEvidence = (sentence: string) => statements.has(normalizeText(sentence));
  const replies = spawnCalls(view, writer).map(({ output }) => replyIn(output));
  return replies.find((reply) => sentencesOf(reply).some(isEvidence));
}

function noAnswer(searches: readonly Search[]): string {
  const replies = searches.map(({ report }) => replyIn(report));
  const reason = replies.some((reply) => findingsIn(reply).length > 0)
    ? "The check did not confirm the findings."
    : (replies.find((reply) => reply !== "") ?? "The search is not finished yet.");
  return `I found no answer to this, so I give none. ${reason}`;
}

function unanswered(searches: readonly Search[]): readonly string[] {
  const answered = searches.filter(({ report }) => !report.includes(nothingFound));
  return searches
    .filter(({ part }) => answered.every((search) => search.part !== part))
    .map(({ part }) => `I found no answer to this part: ${part}`);
}

/** Groups the evidence by the part of the question that it was found for. */
function notesOf(searches: readonly Search[], evidence: readonly Evidence[]): readonly Notes[] {
  const left = new Map(evidence.map(({ statement }) => [normalizeText(statement), statement]));
  return searches.map(({ part, report }) => {
    const sentences = findingsIn(report).flatMap(
      ({ statement }) => left.get(normalizeText(statement)) ?? [],
    );
    for (const sentence of sentences) left.delete(normalizeText(sentence));
    return { part, sentences };
  });
}

function spawn(agent: string, task: string, seconds = childSeconds) {
  return { name: "agent_spawn", input: { agent_id: agent, task, timeout_seconds: seconds } };
}

function spawnCalls(view: View, agent: string | undefined): readonly MadeCall[] {
  if (agent === undefined) return [];
  return callsOf(view, "agent_spawn").filter(({ input }) => input.agent_id === agent);
}

/** Returns the report of a child, also when it arrived later; "" while the child works. */
function reportOf(view: View, call: MadeCall): string {
  if (!isOpen(call.output)) return call.output;
  const key = keyIn(call.output);
  const later = view.calls.slice(view.calls.indexOf(call) + 1).map(({ output }) => output);
  // One text may hold the reports of several children.
  const sections = [...later, ...view.notices].flatMap((text) => text.split(/^(?=agent_key: )/m));
  return sections.find((section) => keyIn(section) === key && !isOpen(section)) ?? "";
}

function waitFor(view: View, calls: readonly MadeCall[]): Move | undefined {
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

function replyIn(report: string): string {
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

function publish(view: View, text: string, evidence: readonly Evidence[]): Move | undefined {
  const tool = publisherIn(view);
  if (tool === undefined || callsOf(view, tool.name).length > 0) return undefined;
  const input = fillInput(tool, { title: view.question, text: withSources(text, evidence) });
  return { thinking: "The text is ready. I publish it.", calls: [{ name: tool.name, input }] };
}

function publishNote(view: View): readonly string[] {
  const tool = publisherIn(view);
  const call = tool && callsOf(view, tool.name)[0];
  if (call === undefined) return [];
  return [call.isError ? `The report is not published: ${call.output}` : withoutFrame(call.output)];
}

function publisherIn({ tools, system, question }: View): OfferedTool | undefined {
  return tools.find(
    ({ name }) => name.includes("publish") && `${system} ${question}`.includes(name),
  );
}

function withSources(text: string, evidence: readonly Evidence[]): string {
  const numbers = new Map<string, number>();
  const indexed = evidence.map((entry, index) => ({ ...entry, id: index }));
  const body = cite(text, indexed).replace(/\[\^(\d+)\]/g, (_, index: string) => {
    const source = evidence[Number(index)];
    const place = source ? (source.place ?? `source ${source.id}`) : "";
    const number = numbers.get(place) ?? numbers.size + 1;
    numbers.set(place, number);
    return ` [${number}]`;
  });
  const sources = [...numbers].map(([place, number]) => `${number}. ${place}`);
  return [body, "Sources", sources.join("\n")].join("\n\n");
}

/** The findings for one part of a question. */
type Notes = { readonly part: string; readonly sentences: readonly string[] };

/** Writes a text from the notes in the question, if there are any. */
export function compose(view: View): Move | undefined {
  const notes = readNotes(view.question);
  if (notes.length === 0) return undefined;
  const thinking = "I write one paragraph for each part, the main point first.";
  return { thinking, text: writeParagraphs(notes) };
}

function notesTask(question: string, notes: readonly Notes[]): string {
  const parts = notes.map(({ part, sentences }) =>
    [`Notes on: ${part}`, ...sentences.map((sentence) => `- ${sentence}`)].join("\n"),
  );
  return [`Write the answer to: ${question}`, ...parts].join("\n\n");
}

function readNotes(task: string): readonly Notes[] {
  const sections = task.split(/^Notes on: /m).slice(1);
  return sections.map((section) => ({
    part: section.split("\n", 1)[0]?.trim() ?? "",
    sentences: Array.from(section.matchAll(/^- (.+)$/gm), ([, sentence = ""]) => sentence),
  }));
}

/** Writes a paragraph for each part: the best sentence first, the others in order, none repeated. */
function writeParagraphs(notes: readonly Notes[]): string {
  const used = new Set<string>();
  const paragraphs = notes.map(({ part, sentences }) => {
    const weights = new Map(termsOf(part).map(({ stem }) => [stem, 1]));
    const fresh = sentences.filter((sentence) => {
      const isNew = !isRepeated(sentence, used);
      used.add(normalizeText(sentence));
      return isNew;
    });
    const scored = fresh.map((text) => ({ text, score: scoreSentence(text, "", part, weights) }));
    const main = scored.toSorted((a, b) => b.score - a.score)[0]?.text;
    return [main, ...fresh.filter((sentence) => sentence !== main)].join(" ").trim();
  });
  return paragraphs.filter((paragraph) => paragraph !== "").join("\n\n");
}

/** A sentence counts as repeated when it shares nearly all words with an earlier one. */
function isRepeated(sentence: string, used: ReadonlySet<string>): boolean {
  const stems = stemsOf(sentence);
  return [...used].some((earlier) => {
    const others = stemsOf(earlier);
    const shared = [...stems].filter((stem) => others.has(stem)).length;
    return shared / (stems.size + others.size - shared) > 0.7;
  });
}
