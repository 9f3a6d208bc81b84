import { isScalar, parseDocument, visit } from "yaml";

/** A file that begins with settings, in its two parts. */
export interface FrontMatter<Data> {
  /** Undefined: the file does not begin with settings. */
  readonly data: Data | undefined;
  readonly body: string;
}

/** Why a file cannot be read. */
export interface FrontMatterProblem {
  readonly problem: string;
}

const maxBytes = 64 * 1024;
const maxAliases = 16;

/** Cuts a text at its first two lines that are exactly `---`, if the first of them is its first line. */
export function splitFrontMatter(text: string): FrontMatter<string> | FrontMatterProblem {
  const whole = text.replace(/^\uFEFF/, "");
  const opening = /^---\r?(?:\n|$)/.exec(whole);
  if (!opening) return { data: undefined, body: whole };
  const rest = whole.slice(opening[0].length);
  const closing = /(?:^|\n)---\r?(?:\n|$)/.exec(rest);
  if (!closing) return { problem: "The front matter has no end: a line that is exactly ---." };
  const data = rest.slice(0, closing.index);
  return { data, body: rest.slice(closing.index + closing[0].length) };
}

/** Reads the settings at the beginning of a text. They are plain data: tags, and what would unfold, are refused. */
export function readFrontMatter(
  text: string,
): FrontMatter<Readonly<Record<string, unknown>>> | FrontMatterProblem {
  const parts = splitFrontMatter(text);
  if ("problem" in parts || parts.data === undefined) return parts as FrontMatter<never>;
  if (Buffer.byteLength(parts.data) > maxBytes) {
    return { problem: `The front matter is larger than ${maxBytes} bytes.` };
  }
  const read = readYaml(parts.data);
  return "problem" in read ? read : { data: read.data, body: parts.body };
}

function readYaml(
  text: string,
): { readonly data: Readonly<Record<string, unknown>> } | FrontMatterProblem {
  const document = parseDocument(text, {
    schema: "core",
    resolveKnownTags: false,
    stringKeys: true,
    logLevel: "error",
    // The parser compares every key with every other one.
    uniqueKeys: false,
  });
  const [wrong] = [...document.errors, ...document.warnings];
  if (wrong) {
    const message = wrong.message.replace(/ at line \d+, column \d+:.*$/s, "");
    // The first line of the file is the fence.
    return { problem: `Line ${(wrong.linePos?.[0].line ?? 0) + 1}: ${message}.` };
  }
  const twice = keyTwice(document);
  if (twice !== undefined) return { problem: `The key ${JSON.stringify(twice)} is there twice.` };
  try {
    const data: unknown = document.toJS({ maxAliasCount: maxAliases });
    const isMap = typeof data === "object" && data !== null && !Array.isArray(data);
    if (isMap) return { data: data as Readonly<Record<string, unknown>> };
    if (data === null) return { data: {} };
    return { problem: "The front matter is not a list of keys with their values." };
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    return { problem: "The front matter has too many aliases." };
  }
}

function keyTwice(document: Parameters<typeof visit>[0]): string | undefined {
  let twice: string | undefined;
  visit(document, {
    Map(_, { items }) {
      const keys = new Set<string>();
      for (const { key } of items) {
        const name = String(isScalar(key) ? key.value : key);
        if (keys.has(name)) twice = name;
        keys.add(name);
      }
      return twice === undefined ? undefined : visit.BREAK;
    },
  });
  return twice;
}
