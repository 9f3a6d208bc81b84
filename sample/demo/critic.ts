import { foundLines, markerOf } from "./passages.ts";
import { callsOf, directoryOf, type Move, offers, type View } from "./view.ts";
import { normalizeText } from "./words.ts";

const maxClaims = 12;
const searchedWords = 6; // a claim may continue on the next line, so the search uses only its first words

/** Searches the files for each claim of a list and reports which are there word for word. */
export function checkClaims(view: View): Move | undefined {
  const items = view.question.matchAll(/^\s*[-*] +(.+)$/gm);
  const claims = Array.from(items, ([, item = ""]) => item.trim()).slice(0, maxClaims);
  if (!/\bcheck\b|\bverify\b/i.test(view.question) || claims.length === 0) return undefined;
  if (!offers(view, "grep_files")) return undefined;
  const searches = callsOf(view, "grep_files");
  if (searches.length === 0) {
    return {
      thinking: `${claims.length === 1 ? "1 claim" : `${claims.length} claims`}. I search for each in the files.`,
      calls: claims.map((claim) => ({
        name: "grep_files",
        input: { pattern: beginningOf(claim), literal: true, ...directoryOf(view) },
      })),
    };
  }
  const verdicts = claims.map((claim, index) => {
    const { output = "", isError = true } = searches[index] ?? {};
    const line = foundLines(output).find(({ text }) => hasClaim(text, claim));
    if (isError || line === undefined) return `- not found: ${claim}`;
    return `- supported: ${claim}${markerOf(output)} (${line.path}:${line.line})`;
  });
  const count = verdicts.filter((verdict) => verdict.startsWith("- supported")).length;
  return { text: `${count} of ${claims.length} claims are in the files.\n${verdicts.join("\n")}` };
}

function beginningOf(claim: string): string {
  return claim.split(" ").slice(0, searchedWords).join(" ");
}

/** A line has the claim if it contains all of it, or ends within it. */
function hasClaim(line: string, claim: string): boolean {
  const [inLine, claimed] = [normalizeText(line), normalizeText(claim)];
  const start = inLine.indexOf(normalizeText(beginningOf(claim)));
  return start >= 0 && (inLine.includes(claimed) || claimed.startsWith(inLine.slice(start)));
}
