import { foundLines } from "./passages.ts";
import { directoryOf } from "./research.ts";
import { callsOf, type Move, offers, type View } from "./view.ts";

/** Lists the files of a directory with their titles, when that is what is asked for. */
export function catalogue(view: View): Move | undefined {
  if (!/\bcatalogue\b/i.test(view.question) || !offers(view, "grep_files")) return undefined;
  const search = callsOf(view, "grep_files")[0];
  const directory = directoryOf(view);
  if (search === undefined) {
    return {
      thinking: "The first heading of a file is its title.",
      calls: [{ name: "grep_files", input: { pattern: "^# ", ...directory } }],
    };
  }
  if (search.isError) return { text: `The catalogue failed: ${search.output}` };
  const titles = foundLines(search.output)
    .filter(({ line }) => line === 1)
    .map(({ path, text }) => `- ${text.replace(/^# +/, "")} (${path})`)
    .sort();
  const where = directory.path === undefined ? "the workspace" : `${directory.path}/`;
  const count = titles.length === 1 ? "1 file" : `${titles.length} files`;
  return { text: [`There are ${count} with a title in ${where}.`, ...titles].join("\n") };
}
