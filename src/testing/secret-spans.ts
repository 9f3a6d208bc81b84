import { isUtf8 } from "node:buffer";
import { isSecretName, isSecretParameter, needlesOf } from "./secret-names.ts";

/** A place in a text that must be masked, and the texts to mask elsewhere because of it. */
export interface SecretSpan {
  readonly start: number;
  readonly end: number;
  readonly needles: readonly string[];
}

/**
 * The places of secrets in a text: values of JSON fields, forms and URLs that are named like a secret, and the given
 * texts. Includes JSON inside strings and encoded form values. The text may be incomplete or only partly JSON.
 */
export function secretSpans(text: string, needles: readonly string[]): SecretSpan[] {
  return [
    ...needles.flatMap((needle) => [...needleSpans(text, needle)]),
    ...fieldSpans(text),
    ...parameterSpans(text, needles),
    ...passwordSpans(text),
    ...nestedSpans(text, needles),
  ];
}

function* needleSpans(text: string, needle: string): Generator<SecretSpan> {
  const isNumber = /^\d+$/.test(needle);
  for (let at = text.indexOf(needle); at !== -1; at = text.indexOf(needle, at + 1)) {
    const end = at + needle.length;
    // Many longer numbers contain the same six digits.
    if (isNumber && /[\d.]/.test(`${text[at - 1] ?? ""}${text[end] ?? ""}`)) continue;
    yield { start: at, end, needles: [] };
  }
}

const fieldName = /"([^"\\\n]{1,100})"\s*:\s*/g;

function* fieldSpans(text: string): Generator<SecretSpan> {
  for (const { 0: all, 1: name = "", index } of text.matchAll(fieldName)) {
    if (!isSecretName(name)) continue;
    const start = index + all.length;
    const { end, strings } = readValue(text, start);
    if (isSchema(text.slice(start, end))) continue;
    if (/tokens?$/i.test(name) && isOutput(text, index, start, end)) continue;
    for (const span of strings) {
      const value = unescaped(text.slice(span.start, span.end)).text;
      yield { ...span, needles: needlesOf(name, value) };
    }
  }
}

interface Place {
  readonly start: number;
  readonly end: number;
}

/** The end of a JSON value, which may be incomplete, and the strings in it. */
function readValue(text: string, start: number): { end: number; strings: Place[] } {
  const token = /"((?:[^"\\\n]|\\.)*)"?(\s*:)?|[{}[\]]|[^"{}[\]]+/gsy;
  token.lastIndex = start;
  const strings: Place[] = [];
  let depth = 0;
  let end = start;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const [all, string, colon] = match;
    const isString = string !== undefined;
    if (!isString && depth === 0 && all !== "{" && all !== "[") break; // a number, true, null
    end = token.lastIndex;
    if (all === "{" || all === "[") depth += 1;
    else if (all === "}" || all === "]") depth -= 1;
    else if (isString && string !== "" && (depth === 0 || colon === undefined)) {
      strings.push({ start: match.index + 1, end: match.index + 1 + string.length });
    }
    if (depth === 0) break;
  }
  return { end, strings };
}

const schemaWords =
  /^(?:type|format|title|description|enum|items|properties|required|additionalProperties|nullable|minLength|maxLength|pattern|anyOf|oneOf|allOf|\$ref|default|minimum|maximum)$/;

/** Whether a value is a JSON Schema: a tool may declare a field named "password". */
function isSchema(json: string): boolean {
  if (!json.startsWith("{")) return false;
  try {
    const schema = JSON.parse(json) as Record<string, unknown>;
    const words = Object.keys(schema);
    return (
      words.some((word) => /^(?:type|anyOf|oneOf|allOf|\$ref)$/.test(word)) &&
      words.every((word) => schemaWords.test(word)) &&
      typeof schema.default !== "string"
    );
  } catch {
    return false;
  }
}

/** Whether a "token" field is model output, which has log probabilities beside it. */
function isOutput(text: string, index: number, start: number, end: number): boolean {
  const around = `"(?:logprob|log_?probability|token_?id|token_logprobs|bytes)"\\s*:`;
  return (
    /"(?:logprob|logProbability)"\s*:/.test(text.slice(start, end)) ||
    new RegExp(`^\\s*,\\s*${around}`, "i").test(text.slice(end, end + 100)) ||
    new RegExp(`${around}[^"{}]*$`, "i").test(text.slice(Math.max(0, index - 100), index))
  );
}

/** A parameter of a URL, or of a line that is only a form. */
const parameter = /(?:^(?=\S*$)|[?&#](?:amp;)?)([\w.%[\]-]{1,100})=([^&#\s"'<>\\]+)/gm;
const part = /;\s*name="([^"]{1,100})"[^\n]*\n(?:[^\r\n]+\r?\n){0,9}\r?\n([^\r\n]+)/g;

/** The secrets in URLs and forms: parameters named like one, and secrets inside other values. */
function* parameterSpans(text: string, needles: readonly string[]): Generator<SecretSpan> {
  for (const match of text.matchAll(parameter)) {
    const [all, name = "", encoded = ""] = match;
    const end = match.index + all.length;
    const start = end - encoded.length;
    const value = unquoted(encoded);
    if (isSecretParameter(unquoted(name).text)) {
      yield { start, end, needles: needlesOf(unquoted(name).text, inUtf8(value.text)) };
    } else if (value.text !== encoded) {
      const inside = secretSpans(value.text, needles);
      yield* inside.map((span) => ({
        ...moved(span, value.starts, start),
        needles: span.needles.map(inUtf8),
      }));
    }
  }
  for (const { 0: all, 1: name = "", 2: value = "", index } of text.matchAll(part)) {
    const end = index + all.length;
    if (!isSecretParameter(name)) continue;
    yield { start: end - value.length, end, needles: needlesOf(name, value) };
  }
}

const address = /\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s/?#"'<>\\@:]{0,200}:([^\s/?#"'<>\\]{1,500})@/gi;

function* passwordSpans(text: string): Generator<SecretSpan> {
  for (const { 0: all, 1: password = "", index } of text.matchAll(address)) {
    const end = index + all.length - 1;
    const needles = needlesOf("password", inUtf8(unquoted(password).text));
    yield { start: end - password.length, end, needles };
  }
}

function* nestedSpans(text: string, needles: readonly string[]): Generator<SecretSpan> {
  for (const { 1: string = "", index } of text.matchAll(/"((?:[^"\\\n]|\\.)*)"?/gs)) {
    if (!string.includes("\\")) continue; // nothing is escaped, so the caller has seen it
    const inner = unescaped(string);
    for (const span of secretSpans(inner.text, needles)) {
      yield { ...moved(span, inner.starts, index + 1), needles: span.needles };
    }
  }
}

/** A decoded text with the position of each character in the encoded one. */
interface Decoded {
  readonly text: string;
  readonly starts: readonly number[];
}

function decoded(text: string, piece: RegExp, decode: (piece: string) => string): Decoded {
  const starts: number[] = [];
  let plain = "";
  for (const { 0: found, index } of text.matchAll(piece)) {
    plain += decode(found);
    starts.push(index);
  }
  return { text: plain, starts: [...starts, text.length] };
}

const escapes: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };

/** Decodes the content of a JSON string. */
function unescaped(text: string): Decoded {
  return decoded(text, /\\u[\da-f]{4}|\\.|./gis, (piece) => {
    if (piece.length === 6) return String.fromCharCode(Number.parseInt(piece.slice(2), 16));
    const last = piece.slice(-1);
    return piece.length === 1 ? piece : (escapes[last] ?? last);
  });
}

/** Decodes percent-encoding byte by byte, because a character may have several bytes. */
function unquoted(text: string): Decoded {
  return decoded(text, /%[\da-f]{2}|./gis, (piece) => {
    if (piece.length === 3) return String.fromCharCode(Number.parseInt(piece.slice(1), 16));
    return piece === "+" ? " " : piece;
  });
}

/** Decodes bytes as UTF-8; returns other text unchanged. */
function inUtf8(text: string): string {
  const bytes = Buffer.from(text, "latin1");
  return bytes.toString("latin1") === text && isUtf8(bytes) ? bytes.toString() : text;
}

function moved({ start, end }: Place, starts: readonly number[], by: number): Place {
  return { start: by + (starts[start] as number), end: by + (starts[end] as number) };
}
