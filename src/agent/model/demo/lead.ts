import { type Notes, notesTask, paragraphs } from "./compose.ts";
import { replyIn, reportOf, spawn, spawned, waitFor } from "./delegate.ts";
import { cite, type Evidence, evidenceIn, findingsIn, restsOn } from "./evidence.ts";
import { partsOf } from "./parts.ts";
import { publishMove, publishNote } from "./publish.ts";
import { nothingFound } from "./research.ts";
import { type Team, teamOf } from "./team.ts";
import { type Move, offers, type View } from "./view.ts";
import { bare, termsOf } from "./words.ts";

/** Leads a team: hands out the parts of a question, has the findings checked and written up, and answers. */
export function lead(view: View): Move | undefined {
  if (!offers(view, "agent_spawn")) return undefined;
  const team = teamOf(view.system);
  const searches = spawned(view, team.researcher);
  if (searches.length === 0) return handOut(view, team);
  const evidence = evidenceIn(view);
  return (
    waitFor(view, searches) ??
    (evidence.length === 0 ? notFound(view, team) : undefined) ??
    haveChecked(view, team, evidence) ??
    haveWritten(view, team, evidence) ??
    answer(view, team, evidence)
  );
}

function handOut(view: View, { researcher, background }: Team): Move {
  if (termsOf(view.question).length === 0) {
    return { text: "I need a question with words that I can look for." };
  }
  const parts = partsOf(view.question);
  const side = background ? [spawn(background.name, background.description, 0)] : [];
  const meanwhile = background ? ` Meanwhile ${background.name} works in the background.` : "";
  return {
    thinking: `I split this into ${parts.length} parts and have ${researcher} look into them side by side.${meanwhile}`,
    calls: [...parts.map((part) => spawn(researcher, part)), ...side],
  };
}

function haveChecked(view: View, team: Team, evidence: readonly Evidence[]): Move | undefined {
  const { critic } = team;
  if (critic === undefined || spawned(view, critic).length > 0) return undefined;
  const claims = notesOf(view, team, evidence).flatMap(({ sentences }) => sentences);
  const task = ["Check that each of these claims is in the files.", ...claims.map(asItem)];
  return {
    thinking: `${claims.length} findings. Before I use them, ${critic} checks them.`,
    calls: [spawn(critic, task.join("\n"))],
  };
}

function haveWritten(view: View, team: Team, evidence: readonly Evidence[]): Move | undefined {
  const { writer } = team;
  if (writer === undefined || spawned(view, writer).length > 0) return undefined;
  const notes = notesOf(view, team, evidence).filter(({ sentences }) => sentences.length > 0);
  return {
    thinking: `The findings hold. ${writer} makes a text of them.`,
    calls: [spawn(writer, notesTask(view.question, notes))],
  };
}

/** The answer: what the writer made of the findings, or else what we make of them, each sentence with its source. */
function answer(view: View, team: Team, evidence: readonly Evidence[]): Move {
  const written = spawned(view, team.writer).map(({ output }) => replyIn(output));
  const text =
    written.find((one) => restsOn(one, evidence)) ?? paragraphs(notesOf(view, team, evidence));
  const side = spawned(view, team.background?.name);
  return (
    publishMove(view, text, evidence) ??
    waitFor(view, side) ?? {
      text: [
        cite(text, evidence),
        ...gaps(view, team),
        ...publishNote(view),
        ...sideNotes(view, team),
      ].join("\n\n"),
    }
  );
}

function notFound(view: View, team: Team): Move {
  const reports = spawned(view, team.researcher).map((call) => replyIn(reportOf(view, call)));
  const why = reports.some((report) => findingsIn(report).length > 0)
    ? "What was found did not stand the check."
    : (reports.find((report) => report !== "") ?? "The search is not done yet.");
  const text = `I found no answer to this, so I give none. ${why}`;
  return { text: [text, ...sideNotes(view, team)].join("\n\n") };
}

/** The parts to which nobody found an answer. */
function gaps(view: View, team: Team): readonly string[] {
  const asked = spawned(view, team.researcher).map((call) => ({
    part: partOf(call.input.task),
    isOpen: reportOf(view, call).includes(nothingFound),
  }));
  return asked
    .filter(({ part, isOpen }) => isOpen && asked.every((one) => one.part !== part || one.isOpen))
    .map(({ part }) => `To this part I found no answer: ${part}`);
}

/** What came of the work in the background: its first line. */
function sideNotes(view: View, { background }: Team): readonly string[] {
  if (background === undefined) return [];
  return spawned(view, background.name).flatMap((call) => {
    const line = replyIn(reportOf(view, call)).split("\n", 1)[0] ?? "";
    return line === "" ? [] : [`From ${background.name}: ${line}`];
  });
}

/** Findings under the part of the question for which they were found. */
function notesOf(view: View, team: Team, evidence: readonly Evidence[]): readonly Notes[] {
  const left = new Map(evidence.map(({ statement }) => [bare(statement), statement]));
  return spawned(view, team.researcher).map((call) => {
    const sentences = findingsIn(reportOf(view, call)).flatMap(
      ({ statement }) => left.get(bare(statement)) ?? [],
    );
    for (const sentence of sentences) left.delete(bare(sentence));
    return { part: partOf(call.input.task), sentences };
  });
}

/** A part as it was in the question, without what was added for whoever looks into it. */
function partOf(task: unknown): string {
  return String(task).replace(/\? .*$/s, "?");
}

function asItem(text: string): string {
  return `- ${text}`;
}
