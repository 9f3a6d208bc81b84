/** A sentence and the line of its file that it begins on. */
export interface Sentence {
  readonly text: string;
  readonly line: number;
}

/** A line that a search has found. */
export interface FoundLine {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

/** A result that may be cited, and its number. */
export interface CitableText {
  readonly id: number;
  readonly text: string;
}

const segmenter = new Intl.Segmenter("en", { granularity: "sentence" });

/** The sentences of a running text. */
export function sentencesOf(text: string): readonly string[] {
  return Array.from(segmenter.segment(text), ({ segment }) => segment.trim()).filter(
    (sentence) => sentence !== "",
  );
}

/** The sentences of a file as it is read with line numbers; a sentence may go over several lines. */
export function sentencesOfFile(read: string): readonly Sentence[] {
  const sentences: Sentence[] = [];
  let paragraph: { line: number; start: number }[] = [];
  let text = "";
  const close = () => {
    for (const { segment, index } of segmenter.segment(text)) {
      const sentence = segment.trim();
      const start = index + segment.indexOf(sentence);
      const line = paragraph.findLast((one) => one.start <= start)?.line;
      if (line !== undefined && /\p{L}.*[.!?]["”)]?$/u.test(sentence)) {
        sentences.push({ text: sentence, line });
      }
    }
    paragraph = [];
    text = "";
  };
  for (const [, number = "", content = ""] of read.matchAll(/^ *(\d+)\t(.*)$/gm)) {
    const isHeading = /^\s*#/.test(content);
    const item = /^\s*(?:[-*+]|\d+\.)\s+(.*)$/.exec(content)?.[1];
    if (content.trim() === "" || isHeading || item !== undefined) close();
    if (isHeading || content.trim() === "") continue;
    paragraph.push({ line: Number(number), start: text.length });
    text += `${(item ?? content).trim()} `;
  }
  close();
  return sentences;
}

/** The heading of a file as it is read with line numbers. */
export function titleOfFile(read: string): string {
  return /^ *\d+\t#+ +(.*)$/m.exec(read)?.[1] ?? "";
}

/** The lines of a search's result. */
export function foundLines(result: string): readonly FoundLine[] {
  return Array.from(
    result.matchAll(/^(.+?):(\d+): ?(.*)$/gm),
    ([, path = "", line, text = ""]) => ({
      path,
      line: Number(line),
      text,
    }),
  );
}

/** What may be cited in a text, with its number. */
export function citableTexts(text: string): readonly CitableText[] {
  const frames = text.matchAll(
    /<referencable-item>\nID: (\d+)\n([\s\S]*?)\n?<\/referencable-item>/g,
  );
  return Array.from(frames, ([, id, content = ""]) => ({ id: Number(id), text: content }));
}

/** A result as it was before it got a number. */
export function withoutFrame(result: string): string {
  return citableTexts(result)[0]?.text ?? result;
}

/** A text without what may be cited in it. */
export function withoutCitable(text: string): string {
  return text.replace(/<referencable-item>\nID: \d+\n[\s\S]*?<\/referencable-item>\n?/g, "");
}

/** The entries of the lists in a text. */
export function listItems(text: string): readonly string[] {
  return Array.from(text.matchAll(/^\s*[-*] +(.+)$/gm), ([, item = ""]) => item.trim());
}
