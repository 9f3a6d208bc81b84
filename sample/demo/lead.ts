import { asksForCatalogue } from "./catalogue.ts";
import { fillInput } from "./fallback.ts";
import { partsOf, topicOf } from "./parts.ts";
import {
  cite,
  type Evidence,
  evidenceIn,
  findingsIn,
  sentencesOf,
  withoutFrame,
} from "./passages.ts";
import { nothingFound } from "./research.ts";
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
import { callsOf, type MadeCall, type Move, type OfferedTool, offers, type View } from "./view.ts";
import { hasAny, ignoredMessages, isWanted, type Wishes, wishesIn } from "./wishes.ts";
import { normalizeText, stemsOf, termsOf } from "./words.ts";
import { mainPoint, type Notes, notesTask, writeParagraphs } from "./writer.ts";

const maxPublishAttempts = 3;

/** A part of the question that a researcher got, and its report; "" while the researcher works. */
type Search = { readonly part: string; readonly report: string; readonly isForFigures: boolean };

/** Leads a team: delegates the parts of a question, has the findings checked and written up, and answers. */
export function lead(view: View): Move | undefined {
  if (!offers(view, "agent_spawn")) return undefined;
  const { researcher: found, critic, writer, background } = teamIn(view.system);
  if (asksForCatalogue(view.question)) return background && listFiles(view, background);
  // An agent that can search, and has nobody but a critic, searches itself.
  if (found === undefined && critic !== undefined && offers(view, "grep_files")) return undefined;
  const researcher = found ?? generalPurpose;
  const calls = spawnCalls(view, researcher);
  if (calls.length === 0) return delegateParts(view, researcher);
  const wishes = [...view.steering, ...denialsIn(view)].map(wishesIn);
  const evidence = evidenceIn(view);
  const more = newParts(wishes, calls, evidence);
  if (more.length > 0) {
    const thinking = `You ask for more. ${researcher} looks into it.`;
    return { thinking, calls: more.map((part) => spawn(researcher, part)) };
  }
  const searches = currentSearches(view, wishes, calls);
  const notes = notesOf(searches, evidence).map((each) => adapt(each, wishes));
  const claims = notes.flatMap(({ sentences }) => sentences);
  const filled = notes.filter(({ sentences }) => sentences.length > 0);
  const writing = notesTask(topicOf(view.question).text, filled);
  const text = writtenText(view, writer, writing, evidence) ?? writeParagraphs(notes);
  const unchecked = claims.filter((claim) => !isChecked(view, critic, claim));
  return (
    waitFor(view, calls) ??
    (claims.length === 0 ? say(noAnswer(searches, evidence)) : undefined) ??
    delegate(view, unchecked.length > 0 ? critic : undefined, {
      task: checkTask(unchecked),
      thinking: `${unchecked.length} findings. ${critic} checks them first.`,
    }) ??
    delegate(view, writer, {
      task: writing,
      thinking: `The findings hold. ${writer} writes the text.`,
    }) ??
    publish(view, wishes, text, evidence) ??
    say(
      cite(text, evidence),
      ...missingParts(searches),
      ...unanswered(searches),
      ...publishNote(view, wishes),
      ...ignoredMessages(view),
    )
  );
}

function say(...paragraphs: readonly string[]): Move {
  return { text: paragraphs.join("\n\n") };
}

function delegateParts(view: View, researcher: string): Move {
  if (termsOf(view.question).length === 0) {
    return say("I need a question with words that I can search for.");
  }
  const parts = partsOf(topicOf(view.question).text, view.earlier);
  return {
    thinking: `I split this into ${parts.length} parts for ${researcher} to research in parallel.`,
    calls: parts.map((part) => spawn(researcher, part)),
  };
}

/** Has the files listed in the background, waits for the list and passes it on. */
function listFiles(view: View, { name }: Member): Move {
  const task = "Make a catalogue of the articles.";
  const [call] = spawnCalls(view, name);
  if (call === undefined) {
    const thinking = `This is about the files themselves. ${name} makes a list of them.`;
    return { thinking, calls: [spawn(name, task, 0)] };
  }
  const report = replyIn(reportOf(view, call));
  const lines = report
    .split("\n")
    .map((line) => line.replace(/ ?(?:\[\^\d+\] ?)?\([^()\s]+\)$/, ""));
  const list = lines.join("\n").trim();
  const isMissing = list === "" || isCancelled(reportOf(view, call));
  return (
    waitFor(view, [call]) ??
    say(isMissing ? `I have no list: ${name} did not finish it.` : cite(list, evidenceIn(view)))
  );
}

/** Questions in messages since the question that no researcher has got yet. */
function newParts(
  wishes: readonly Wishes[],
  calls: readonly MadeCall[],
  evidence: readonly Evidence[],
): readonly string[] {
  const given = new Set(calls.map(({ input }) => input.task));
  const stems = evidence.map(({ statement }) => stemsOf(statement));
  const asked = wishes.flatMap(({ asks, only }) => {
    const isFound = only === undefined || stems.some((each) => hasAny(each, only));
    return [
      asks ?? [],
      isFound ? [] : `What do the files say about ${[...only].join(" ")}?`,
    ].flat();
  });
  return asked.filter((part) => !given.has(part));
}

/** The searches that count: a question that a message asks instead replaces those before it. */
function currentSearches(view: View, wishes: readonly Wishes[], calls: readonly MadeCall[]) {
  const replacing = wishes.findLast(({ isInstead }) => isInstead)?.asks;
  const from = calls.findIndex(({ input }) => input.task === replacing);
  return calls.slice(Math.max(0, from)).map(
    (call): Search => ({
      part: String(call.input.task).replace(/\? .*$/s, "?"), // without the advice of `partsOf`
      report: reportOf(view, call),
      isForFigures: /\? .*\bfigures\b/s.test(String(call.input.task)),
    }),
  );
}

/** Leaves out what a person does not want. */
function adapt({ part, sentences }: Notes, wishes: readonly Wishes[]): Notes {
  const kept = sentences.filter((sentence) => isWanted(sentence, wishes));
  if (!wishes.some(({ isBrief }) => isBrief)) return { part, sentences: kept };
  const main = mainPoint(part, kept);
  return { part, sentences: main === undefined ? [] : [main] };
}

function isChecked(view: View, critic: string | undefined, claim: string): boolean {
  return spawnCalls(view, critic).some(({ input }) => String(input.task).includes(`- ${claim}`));
}

/** Returns the writer's text for these notes if it has a sentence from the evidence. */
function writtenText(
  view: View,
  writer: string | undefined,
  task: string,
  evidence: readonly Evidence[],
): string | undefined {
  const statements = new Set(evidence.map(({ statement }) => normalizeText(statement)));
  const isEvidence = (sentence: string) => statements.has(normalizeText(sentence));
  const replies = spawnCalls(view, writer)
    .filter(({ input }) => input.task === task)
    .map(({ output }) => replyIn(output));
  return replies.find((reply) => sentencesOf(reply).some(isEvidence));
}

function noAnswer(searches: readonly Search[], evidence: readonly Evidence[]): string {
  if (evidence.length > 0) return "With these changes nothing is left of the answer.";
  const [missing] = missingParts(searches);
  if (missing !== undefined) return missing;
  const replies = searches.map(({ report }) => replyIn(report));
  if (replies.some((reply) => findingsIn(reply).length > 0))
    return "I found no answer to this, so I give none. The check did not confirm the findings.";
  const refusal = replies.find((reply) => nothingFound.test(reply));
  const failure = replies.find((reply) => reply !== "") ?? "The search is not finished yet.";
  return refusal ?? `I found no answer to this, so I give none. ${failure}`;
}

function isCancelled(report: string): boolean {
  return /^status: cancelled$/m.test(report);
}

/** Names the parts whose researchers were cancelled. */
function missingParts(searches: readonly Search[]): readonly string[] {
  return searches
    .filter(({ report }) => isCancelled(report))
    .map(({ part, isForFigures }) =>
      isForFigures
        ? "The search for figures and examples was cancelled, so they are missing here."
        : `The search for this part was cancelled, so its answer is missing here: ${part}`,
    );
}

function unanswered(searches: readonly Search[]): readonly string[] {
  const answered = searches.filter(({ report }) => !nothingFound.test(replyIn(report)));
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

/** The reasons of denied calls that publish. */
function denialsIn(view: View): readonly string[] {
  const tool = publisherIn(view);
  if (tool === undefined) return [];
  return callsOf(view, tool.name).flatMap(({ isError, output }) => (isError ? output : []));
}

/** Publishes the text; after a denial, once it has changed as the reason asks. */
function publish(
  view: View,
  wishes: readonly Wishes[],
  text: string,
  evidence: readonly Evidence[],
): Move | undefined {
  const tool = publisherIn(view);
  if (tool === undefined || !wantsReport(view, wishes)) return undefined;
  const calls = callsOf(view, tool.name);
  const last = calls.at(-1);
  const title = wishes.findLast((each) => each.title)?.title ?? topicOf(view.question).title;
  const input = fillInput(tool, { title, text: withSources(text, evidence) });
  const isSame = JSON.stringify(last?.input) === JSON.stringify(input);
  if (last?.isError === false || isSame || calls.length >= maxPublishAttempts) return undefined;
  const thinking = last ? "I change the report as you ask." : "The text is ready. I publish it.";
  return { thinking, calls: [{ name: tool.name, input }] };
}

function publishNote(view: View, wishes: readonly Wishes[]): readonly string[] {
  const tool = publisherIn(view);
  const call = tool && callsOf(view, tool.name).at(-1);
  if (tool && !call && asksForReport(view.question) && !wantsReport(view, wishes))
    return ["The report is not published, as you asked."];
  if (call === undefined) return [];
  return [call.isError ? `The report is not published: ${call.output}` : withoutFrame(call.output)];
}

function publisherIn({ tools }: View): OfferedTool | undefined {
  return tools.find(({ name }) => name.includes("publish"));
}

function asksForReport(question: string): boolean {
  return /\bpublish|\breport\b/i.test(question);
}

function wantsReport(view: View, wishes: readonly Wishes[]): boolean {
  const latest = wishes.findLast(({ publishes }) => publishes !== undefined);
  return latest?.publishes ?? asksForReport(view.question);
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
