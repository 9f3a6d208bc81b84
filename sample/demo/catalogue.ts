import { foundLines, markerOf, sentencesOfFile } from "./passages.ts";
import { callsOf, directoryOf, type Move, offers, type View } from "./view.ts";
import { termsOf } from "./words.ts";

const openingLines = 4;

/** Words that a question about the files themselves consists of. */
const libraryWords =
  /^(?:librar(?:y|ies)|workspaces?|folders?|director(?:y|ies)|collections?|catalogues?|catalogs?|files?|articles?|documents?|docs?|texts?|topics?|subjects?|themes?|contents?|titles?|list|lists|overview|summar(?:y|ise|ize)|summari[sz]ed|outline|available|here|inside|cover|covers|covered|contain|contains|include|includes|read|store|stored|have|exist|knowledge|sources?|materials?|data|information|learn|ask|brief|short|quick)$/i;
const libraryNouns =
  /\b(?:library|workspace|folder|directory|collection|catalogu?e|files|articles|documents|docs|topics|subjects|themes|contents|sources)\b/i;
const asksWhatIsKnown =
  /^\W*what (?:can i ask|do you know|do you have|can you tell me|are you able to answer)(?: you)?(?: about)?(?: here)?\W*$/i;

/** Whether a question is about the files as a whole and not about a subject in them. */
export function asksForCatalogue(question: string): boolean {
  if (asksWhatIsKnown.test(question)) return true;
  return (
    libraryNouns.test(question) &&
    termsOf(question).every(({ word }) => libraryWords.test(word.replace(/['’].*$/, "")))
  );
}

/** Lists the files of a directory with their titles and, if it can read them, the first sentence of each. */
export function catalogue(view: View): Move | undefined {
  const isAsked = /\bcatalogue\b/i.test(view.question) || asksForCatalogue(view.question);
  if (!isAsked || !offers(view, "grep_files")) return undefined;
  const search = callsOf(view, "grep_files")[0];
  const directory = directoryOf(view);
  if (search === undefined) {
    return {
      thinking: "The first heading of a file is its title.",
      calls: [{ name: "grep_files", input: { pattern: "^# ", ...directory } }],
    };
  }
  if (search.isError) return { text: `The catalogue failed: ${search.output}` };
  const files = foundLines(search.output)
    .filter(({ line }) => line === 1)
    .map(({ path, text }) => ({ path, title: text.replace(/^# +/, "") }))
    .sort((a, b) => a.path.localeCompare(b.path));
  const where = directory.path === undefined ? "the workspace" : `${directory.path}/`;
  const count = files.length === 1 ? "1 file" : `${files.length} files`;
  const reads = callsOf(view, "read_file");
  if (files.length > 0 && reads.length === 0 && offers(view, "read_file")) {
    return {
      thinking: `There are ${count} with a title in ${where}. I read how each begins.`,
      calls: files.map(({ path }) => ({ name: "read_file", input: { path, limit: openingLines } })),
    };
  }
  const lines = files.map(({ path, title }, index) => {
    const output = reads[index]?.output ?? "";
    const [first] = sentencesOfFile(output);
    const place =
      first === undefined ? ` (${path})` : `${markerOf(output)} (${path}:${first.line})`;
    return `- ${title}.${first === undefined ? "" : ` ${first.text}`}${place}`;
  });
  return { text: [`There are ${count} with a title in ${where}.`, ...lines].join("\n") };
}
