import type { Document } from "yaml";
import { oneLine } from "./prompts.ts";

type Data = Readonly<Record<string, unknown>>;
type Parts<T> = { readonly data: T | undefined; readonly body: string };
type Problem = { readonly problem: string };

const maxBytes = 64 * 1024;
const maxWarnings = 5; // about unknown keys of one file
const maxKey = 100;

/** Splits a text whose first line is exactly `---` at the next such line; `data` is undefined if there is none. */
export function splitFrontMatter(text: string): Parts<string> | Problem {
  const whole = text.replace(/^\uFEFF/, "");
  const opening = /^---\r?(?:\n|$)/.exec(whole);
  if (!opening) return { data: undefined, body: whole };
  const rest = whole.slice(opening[0].length);
  const closing = /(?:^|\n)---\r?(?:\n|$)/.exec(rest);
  if (!closing) return { problem: "The front matter has no end: add a line that is exactly ---." };
  const data = rest.slice(0, closing.index);
  return { data, body: rest.slice(closing.index + closing[0].length) };
}

/** Parses the front matter of a text as plain data: tags and aliases are refused. */
export async function readFrontMatter(text: string): Promise<Parts<Data> | Problem> {
  const parts = splitFrontMatter(text);
  if ("problem" in parts) return parts;
  const { data, body } = parts;
  if (data === undefined) return { data, body };
  if (Buffer.byteLength(data) > maxBytes) {
    return { problem: `The front matter is larger than ${maxBytes} bytes.` };
  }
  const parsed = parseYaml(data, await import("yaml"));
  return "problem" in parsed ? parsed : { ...parsed, body };
}

function parseYaml(text: string, yaml: typeof import("yaml")): { readonly data: Data } | Problem {
  const document = yaml.parseDocument(text, {
    schema: "core",
    resolveKnownTags: false,
    stringKeys: true,
    logLevel: "error",
    uniqueKeys: false, // the parser's check is quadratic; `refusedIn` checks keys instead
  });
  const [error] = [...document.errors, ...document.warnings];
  if (error) {
    const message = error.message.replace(/ at line \d+, column \d+:.*$/s, "");
    // Line 1 of the file is the fence.
    return { problem: `Line ${(error.linePos?.[0].line ?? 0) + 1}: ${message}.` };
  }
  const problem = refusedIn(document, yaml);
  if (problem !== undefined) return { problem };
  const data: unknown = document.toJS() ?? {};
  if (typeof data === "object" && !Array.isArray(data)) return { data: data as Data };
  return { problem: "The front matter must be keys with values." };
}

/** Refuses duplicate keys, and aliases, which could expand without limit. */
function refusedIn(
  document: Document,
  { visit, isScalar }: typeof import("yaml"),
): string | undefined {
  let problem: string | undefined;
  visit(document, {
    Alias(_, { source }) {
      problem = `The alias ${JSON.stringify(source)} cannot be used: aliases are not followed.`;
      return visit.BREAK;
    },
    Map(_, { items }) {
      const names = new Set<string>();
      for (const { key } of items) {
        const name = String(isScalar(key) ? key.value : key);
        if (names.has(name)) problem = `The key ${JSON.stringify(name)} is duplicated.`;
        names.add(name);
      }
      return problem === undefined ? undefined : visit.BREAK;
    },
  });
  return problem;
}

/** Warns about the keys that are not among `keys`; `advice` says what to do with a well-known one. */
export function unknownKeys(
  data: Data,
  keys: readonly string[],
  advice: Readonly<Record<string, string>> = {},
  prefix = "",
): readonly string[] {
  const unknown = Object.keys(data).filter((key) => !keys.includes(key));
  const warnings = unknown.slice(0, maxWarnings).map((key) => {
    const name = prefix + key;
    const reason = Object.hasOwn(advice, name) ? advice[name] : "it is an unknown key";
    return `${JSON.stringify(oneLine(name, maxKey))} is ignored: ${reason}.`;
  });
  const more = unknown.length - warnings.length;
  return more > 0 ? [...warnings, `${more} more unknown keys are ignored.`] : warnings;
}
