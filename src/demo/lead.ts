import { fillInput } from "./fallback.ts";
import {
  cite,
  type Evidence,
  evidenceIn,
  findingsIn,
  sentencesOf,
  withoutFrame,
} from "./passages.ts";
import { nothingFound, scoreSentence } from "./research.ts";
import {
  checkTask,
  delegate,
  generalPurpose,
  type Member,
  replyIn,
  reportOf,
  spawn,
  spawnCalls,
  teamIn,
  waitFor,
} from "./team.ts";
import { callsOf, type Move, type OfferedTool, offers, type View } from "./view.ts";
import { normalizeText, partsOf, stemsOf, termsOf, topicOf } from "./words.ts";

/** A part of the question that a researcher got, and its report; "" while the researcher works. */
type Search = { readonly part: string; readonly report: string };

/** Leads a team: delegates the parts of a question, has the findings checked and written up, and answers. */
export function lead(view: View): Move | undefined {
  if (!offers(view, "agent_spawn")) return undefined;
  const { researcher: found, critic, writer, background } = teamIn(view.system);
  // An agent that can search, and has nobody but a critic, searches itself.
  if (found === undefined && critic !== undefined && offers(view, "grep_files")) return undefined;
  const researcher = found ?? generalPurpose;
  const calls = spawnCalls(view, researcher);
  if (calls.length === 0) return delegateParts(view, researcher, background);
  const searches = calls.map((call) => ({
    part: String(call.input.task).replace(/\? .*$/s, "?"), // without the advice of `partsOf`
    report: reportOf(view, call),
  }));
  const evidence = evidenceIn(view);
  const notes = notesOf(searches, evidence);
  const claims = notes.flatMap(({ sentences }) => sentences);
  const filled = notes.filter(({ sentences }) => sentences.length > 0);
  const writing = notesTask(topicOf(view.question).text, filled);
  const text = writtenText(view, writer, evidence) ?? writeParagraphs(notes);
  const checking = `${claims.length} findings. ${critic} checks them first.`;
  return (
    waitFor(view, calls) ??
    (evidence.length === 0 ? say(noAnswer(searches)) : undefined) ??
    delegate(view, critic, checkTask(claims), checking) ??
    delegate(view, writer, writing, `The findings hold. ${writer} writes the text.`) ??
    publish(view, text, evidence) ??
    say(cite(text, evidence), ...unanswered(searches), ...publishNote(view))
  );
}

function say(...paragraphs: readonly string[]): Move {
  return { text: paragraphs.join("\n\n") };
}

function delegateParts(view: View, researcher: string, background: Member | undefined): Move {
  if (termsOf(view.question).length === 0) {
    return say("I need a question with words that I can search for.");
  }
  const parts = partsOf(topicOf(view.question).text, view.earlier);
  const side = background ? [spawn(background.name, background.description, 0)] : [];
  const meanwhile = background ? ` Meanwhile ${background.name} works in the background.` : "";
  return {
    thinking: `I split this into ${parts.length} parts for ${researcher} to research in parallel.${meanwhile}`,
    calls: [...parts.map((part) => spawn(researcher, part)), ...side],
  };
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

function publish(view: View, text: string, evidence: readonly Evidence[]): Move | undefined {
  const tool = publisherIn(view);
  if (tool === undefined || callsOf(view, tool.name).length > 0) return undefined;
  const { title } = topicOf(view.question);
  const input = fillInput(tool, { title, text: withSources(text, evidence) });
  return { thinking: "The text is ready. I publish it.", calls: [{ name: tool.name, input }] };
}

function publishNote(view: View): readonly string[] {
  const tool = publisherIn(view);
  const call = tool && callsOf(view, tool.name)[0];
  if (call === undefined) return [];
  return [call.isError ? `The report is not published: ${call.output}` : withoutFrame(call.output)];
}

/** The tool that publishes, if the person asks for a report. */
function publisherIn({ tools, question }: View): OfferedTool | undefined {
  if (!/\bpublish|\breport\b/i.test(question)) return undefined;
  return tools.find(({ name }) => name.includes("publish"));
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
