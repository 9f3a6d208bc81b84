import { cite, evidenceIn } from "./evidence.ts";
import { fillInput } from "./fill-input.ts";
import { withoutFrame } from "./passages.ts";
import type { Move, View } from "./view.ts";
import { stemsOf, termsOf } from "./words.ts";

const whoIAm =
  "I am demo:analyst, a small deterministic program in the shape of a language model. I know nothing by myself: I search, read and cite with the tools that I am given, and hand work to other agents.";

/** Says what it is, when asked. */
export function introduce(view: View): Move | undefined {
  const isAsked = /\b(?:who|what) are you\W*$|\byour name\b|\bare you (?:an? \w+|human|real)\W*$/i;
  return view.calls.length === 0 && isAsked.test(view.question) ? { text: whoIAm } : undefined;
}

/** Sums up what there is when no tool may be used any more. */
export function sumUp(view: View): Move | undefined {
  if (view.tools.length > 0 || view.calls.length === 0) return undefined;
  const evidence = evidenceIn(view);
  const found = evidence.map(({ statement }) => `- ${cite(statement, evidence)}`);
  if (found.length === 0) return { text: "I had to stop before I found anything." };
  return { text: ["I had to stop. This is what I found so far:", ...found].join("\n") };
}

/** Calls the tool whose name and description say what the question says, and tells what came of it. */
export function useTool(view: View): Move | undefined {
  const last = view.calls.at(-1);
  if (last !== undefined) {
    return {
      text: last.isError ? `${last.name} failed: ${last.output}` : withoutFrame(last.output),
    };
  }
  const terms = termsOf(view.question);
  const [best] = view.tools
    .map((tool) => {
      const stems = stemsOf(`${tool.name.replaceAll("_", " ")} ${tool.description}`);
      return { tool, fit: terms.filter(({ stem }) => stems.has(stem)).length };
    })
    .filter(({ fit }) => fit > 0)
    .sort((a, b) => b.fit - a.fit);
  if (best === undefined) return undefined;
  const input = fillInput(best.tool, { title: view.question, text: view.question });
  return {
    thinking: `${best.tool.name} is made for this.`,
    calls: [{ name: best.tool.name, input }],
  };
}

/** Says that it cannot help. */
export function admit(): Move {
  return { text: `${whoIAm} None of my tools is made for what you ask.` };
}
