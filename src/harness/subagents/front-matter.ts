import { type Document, isScalar, parseDocument, visit } from "yaml";

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

/** Reads the settings at the beginning of a text. They are plain data: tags and aliases are refused. */
export function readFrontMatter(
  text: string,
): FrontMatter<Readonly<Record<string, unknown>>> | FrontMatterProblem {
  const parts = splitFrontMatter(text);
  if ("problem" in parts) return parts;
  if (parts.data === undefined) return { data: undefined, body: parts.body };
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
  const refused = refusedIn(document);
  if (refused !== undefined) return { problem: refused };
  const data: unknown = document.toJS();
  if (data === null) return { data: {} };
  if (typeof data !== "object" || Array.isArray(data)) {
    return { problem: "The front matter is not a list of keys with their values." };
  }
  return { data: data as Readonly<Record<string, unknown>> };
}

/** What is YAML and refused all the same. Without aliases nothing can unfold, nor contain itself. */
function refusedIn(document: Document): string | undefined {
  let refused: string | undefined;
  visit(document, {
    Alias(_, { source }) {
      refused = `The alias ${JSON.stringify(source)} cannot be used: aliases are not followed.`;
      return visit.BREAK;
    },
    Map(_, { items }) {
      const names = new Set<string>();
      for (const { key } of items) {
        const name = String(isScalar(key) ? key.value : key);
        if (names.has(name)) refused = `The key ${JSON.stringify(name)} is there twice.`;
        names.add(name);
      }
      return refused === undefined ? undefined : visit.BREAK;
    },
  });
  return refused;
}
