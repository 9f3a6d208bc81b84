import { isUtf8 } from "node:buffer";
import { isSecretParameter, needlesOf } from "./secret-names.ts";
import { secretSpans } from "./secret-spans.ts";

/** Replaces a secret in a recording. */
const mask = "[redacted]";

/** The secrets in the headers and URL of a request, and in the cookies of a response. */
export function secretsOf({ headers, url }: Request | Response): string[] {
  const found: string[] = [];
  for (const [name, value] of headers) {
    // The attributes after the value of a cookie are not secret.
    if (name === "set-cookie") found.push(...needlesOf("cookie", value.replace(/;.*/s, "")));
    else if (isSecretParameter(name)) found.push(...needlesOf(name, value));
  }
  for (const [name, value] of url === "" ? [] : new URL(url).searchParams) {
    if (isSecretParameter(name)) found.push(...needlesOf(name, value));
  }
  return found;
}

/** The secrets in a body, by field name; other parts of the exchange may repeat them. */
export function secretsIn(body: Uint8Array): string[] {
  const found = secretSpans(Buffer.from(body).toString(), []).flatMap(({ needles }) => needles);
  return [...new Set(found)];
}

/** The path and sorted query of a URL, without secret parameters. */
export function safePath(url: string): string {
  const { pathname, searchParams } = new URL(url);
  const query = new URLSearchParams([...searchParams].filter(([name]) => !isSecretParameter(name)));
  query.sort();
  return query.size === 0 ? pathname : `${pathname}?${query}`;
}

/** Masks secrets before they are written: given ones, and values named like one. */
export interface Redactor {
  /** Also masks runs of asterisks, which replace secrets in replayed responses. */
  text(text: string): string;
  /** Also sorts keys, so that equal values have equal text. */
  json(value: unknown): unknown;
  /** Masks in place, because a secret may span several chunks. */
  chunks(chunks: readonly Uint8Array[]): readonly Uint8Array[];
}

/** A redactor for these secrets in every encoding of a body or a URL. */
export function createRedactor(secrets: readonly string[]): Redactor {
  const spellings = secrets.flatMap((secret) => [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    new URLSearchParams([["", secret]]).toString().slice(1),
  ]);
  const needles = [...new Set(spellings)];

  const text = (dirty: string) => redact(dirty, needles);

  function json(value: unknown): unknown {
    if (value === undefined) return undefined;
    // A secret of digits may be a JSON number, which a string mask would break.
    const safe = needles.filter((needle) => !isDigits(needle));
    return sorted(JSON.parse(redact(JSON.stringify(value), safe)));
  }

  function sorted(value: unknown): unknown {
    if (typeof value === "string") return text(value);
    if (typeof value === "number") return needles.includes(String(value)) ? mask : value;
    if (Array.isArray(value)) return value.map(sorted);
    if (typeof value !== "object" || value === null) return value;
    const fields = Object.entries(value).map(
      ([name, field]) => [text(name), sorted(field)] as const,
    );
    return Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  function chunks(dirty: readonly Uint8Array[]): readonly Uint8Array[] {
    const whole = Buffer.concat(dirty);
    const encoding = isUtf8(whole) ? "utf8" : "latin1";
    const bytes = whole.toString(encoding);
    let at = 0;
    let last = 0;
    for (const { start, end } of placesIn(
      bytes,
      needles.map((needle) => Buffer.from(needle).toString(encoding)),
    )) {
      at += Buffer.byteLength(bytes.slice(last, start), encoding);
      const secret = bytes.slice(start, end);
      const length = Buffer.byteLength(secret, encoding);
      // A JSON number must stay a number.
      whole.fill(isDigits(secret) ? "9" : "*", at, at + length);
      at += length;
      last = end;
    }
    let end = 0;
    return dirty.map((chunk) => {
      end += chunk.length;
      return whole.subarray(end - chunk.length, end);
    });
  }

  return { text, json, chunks };
}

/** Sorts spans and merges overlapping ones, so that no part of a secret remains. */
function placesIn(text: string, needles: readonly string[]): { start: number; end: number }[] {
  const places: { start: number; end: number }[] = [];
  for (const { start, end } of secretSpans(text, needles).sort((a, b) => a.start - b.start)) {
    const last = places.at(-1);
    if (last === undefined || start >= last.end) places.push({ start, end });
    else last.end = Math.max(last.end, end);
  }
  return places;
}

function redact(dirty: string, needles: readonly string[]): string {
  let clean = "";
  let last = 0;
  for (const { start, end } of placesIn(dirty, needles)) {
    clean += dirty.slice(last, start) + mask;
    last = end;
  }
  return (clean + dirty.slice(last)).replace(/\*{6,}/g, mask);
}

function isDigits(secret: string): boolean {
  return /^\d+$/.test(secret);
}
