import { citableTexts, foundLines, listItems } from "./passages.ts";
import { directoryOf } from "./research.ts";
import { callsOf, type Move, offers, type View } from "./view.ts";
import { bare } from "./words.ts";

const mostClaims = 12;
/** How much of a claim is looked for: a sentence may go on in the next line. */
const wordsLookedFor = 6;

/** Looks for each claim of a list in the files, and says which are there word for word and which are not. */
export function check(view: View): Move | undefined {
  const claims = listItems(view.question).slice(0, mostClaims);
  if (!/\bcheck\b|\bverify\b/i.test(view.question) || claims.length === 0) return undefined;
  if (!offers(view, "grep_files")) return undefined;
  const searches = callsOf(view, "grep_files");
  if (searches.length === 0) {
    return {
      thinking: `${claims.length} claims. I look for each where it should stand.`,
      calls: claims.map((claim) => ({
        name: "grep_files",
        input: { pattern: beginningOf(claim), literal: true, ...directoryOf(view) },
      })),
    };
  }
  const verdicts = claims.map((claim, index) => {
    const { output = "", isError = true } = searches[index] ?? {};
    const line = foundLines(output).find(({ text }) => holds(text, claim));
    if (isError || line === undefined) return `- not found: ${claim}`;
    const marker = citableTexts(output).map(({ id }) => `[^${id}]`)[0] ?? "";
    return `- supported: ${claim}${marker} (${line.path}:${line.line})`;
  });
  const count = verdicts.filter((verdict) => verdict.startsWith("- supported")).length;
  return { text: `${count} of ${claims.length} claims are in the files.\n${verdicts.join("\n")}` };
}

/** The claims that a check did not find. */
export function refuted(report: string): readonly string[] {
  return Array.from(report.matchAll(/^- not found: (.+)$/gm), ([, claim = ""]) => claim);
}

function beginningOf(claim: string): string {
  return claim.split(" ").slice(0, wordsLookedFor).join(" ");
}

/** Whether a line has the claim, or the part of it that a line has room for. */
function holds(line: string, claim: string): boolean {
  const [inLine, claimed] = [bare(line), bare(claim)];
  const start = inLine.indexOf(bare(beginningOf(claim)));
  return start >= 0 && (inLine.includes(claimed) || claimed.startsWith(inLine.slice(start)));
}
