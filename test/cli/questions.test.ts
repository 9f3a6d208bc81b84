import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { citedText } from "../../src/cli/citations.ts";
import { answerOf } from "../../src/cli/ending.ts";
import { TaskTree } from "../../src/protocol/reduce.ts";
import { type LibraryAnswer, libraryTeam } from "./support/library.ts";

/** A question about the library, or about something else. */
interface Question {
  readonly question: string;
  /** The question before it in the same session. */
  readonly after?: string;
  /** The articles that answer it, `listed` for a list of all articles, or `refused`. */
  readonly expected: readonly string[] | "listed" | "refused";
  /** Words of the answer. */
  readonly says?: string;
  /** Not used while the ranking was built. */
  readonly heldOut: boolean;
}

const questions = JSON.parse(
  readFileSync(join(import.meta.dirname, "questions.json"), "utf8"),
) as readonly Question[];
const articles = readdirSync("sample/workspace/library");
const { ask, team } = libraryTeam();

/** The flaw of an answer; "" if it is right. */
function problemOf({ expected, says = "" }: Question, { text, citations }: LibraryAnswer): string {
  const files = citations.map(({ place }) => place.replace(/^library\/|:\d+$/g, ""));
  if (expected === "refused") return files.length > 0 ? `cites ${files.join(", ")}` : "";
  if (expected === "listed") {
    const missing = articles.filter((article) => !files.includes(article));
    return missing.length > 0 ? `does not list ${missing.join(", ")}` : "";
  }
  if (!expected.includes(files[0] ?? "")) return `cites ${files[0] ?? "nothing"} first`;
  return text.includes(says) ? "" : `does not say "${says}"`;
}

describe.each([
  { set: "the questions that the ranking was built with", heldOut: false, atLeast: 74 },
  { set: "the held-out questions", heldOut: true, atLeast: 18 },
])("$set", ({ heldOut, atLeast }) => {
  it(`gets at least ${atLeast} right`, async () => {
    const asked = questions.filter((question) => question.heldOut === heldOut);
    const problems: string[] = [];
    for (const question of asked) {
      const answer = await ask(question.question, question.after);
      const problem = problemOf(question, answer);
      if (problem !== "") problems.push(`${question.question} ${problem}: ${answer.text}`);
    }
    expect(asked.length - problems.length, problems.join("\n")).toBeGreaterThanOrEqual(atLeast);
  });
});

it("a message to one researcher changes its part of the answer, and no other", async () => {
  const fold = new TaskTree();
  const researchers: string[] = [];
  const question = "Why are deltas shrinking, and how do waterfalls form?";
  for await (const event of team.run(question, { sessionId: "steered", until: "tree" })) {
    fold.apply(event);
    if (event.type !== "task.created" || event.task.agent_id !== "researcher") continue;
    researchers.push(event.task.id);
    if (researchers.length > 1) continue;
    await team.attach({ taskId: event.task.id }).steer("Why do beavers build dams, instead?");
  }
  const answer = answerOf(fold.tree);
  expect(researchers).toHaveLength(2);
  const { text = "" } = (answer && citedText(fold.tree, answer)) || {};
  expect(text).toContain("Beavers are large rodents");
  expect(text).toContain("Most waterfalls form where");
  expect(text).not.toContain("sediment");
});
