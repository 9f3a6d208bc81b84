import { RivuletError, reasonOf, rivuletErrorOf } from "./error.ts";
import { isObject } from "./plain.ts";

const shortestSecret = 6;
/** Shorter segments of a path are names. */
const shortestPathSecret = 16;
/** The first words of credentials, which are no secrets. */
const schemes = /^(bearer|basic|digest|token|apikey)$/i;
/** Headers that never hold a credential. */
const plainHeaders = /^(accept|accept-.*|content-.*|user-agent|traceparent|tracestate)$/i;

/** The spellings in which secret values can come back, longest first: whole, word by word, encoded and decoded. */
export function secretsIn(values: Iterable<string>): readonly string[] {
  const words = [...values].flatMap((value) => [value, value.trim(), ...value.split(/\s+/)]);
  const decoded = (word: string) => new URLSearchParams(`x=${word}`).get("x") ?? "";
  const encoded = (word: string) => (word.isWellFormed() ? encodeURIComponent(word) : word);
  const spellings = words.flatMap((word) => [word, encoded(word), decoded(word)]);
  return [...new Set(spellings)]
    .filter((word) => word.length >= shortestSecret && !schemes.test(word))
    .sort((a, b) => b.length - a.length);
}

/** The values of headers that may be secret. */
export function headerSecrets(headers: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    plainHeaders.test(name) ? [] : [value],
  );
}

/** The parts of an address that may be secret: its credentials, its query, and long segments of its path. */
export function urlSecrets(url: string): readonly string[] {
  const { username, password, pathname, search } = new URL(url);
  const queries = search.split(/[?&]/).map((pair) => pair.slice(pair.indexOf("=") + 1));
  const segments = pathname.split("/").filter(({ length }) => length >= shortestPathSecret);
  return [username, password, ...queries, ...segments];
}

/** The text without secrets. */
export function hideSecrets(secrets: readonly string[], text: string): string {
  return secrets.reduce((safe, secret) => safe.replaceAll(secret, "[hidden]"), text);
}

/** The same error if it has no secret; else a copy without them and without its cause, which may have them too. */
export function errorWithoutSecrets(secrets: readonly string[], thrown: unknown): unknown {
  const { code, message, hint, retryable, where, cause } = rivuletErrorOf(thrown);
  const texts = [code, message, hint ?? "", cause === undefined ? "" : reasonOf(cause)];
  if (texts.every((text) => hideSecrets(secrets, text) === text)) return thrown;
  return new RivuletError(hideSecrets(secrets, code), hideSecrets(secrets, message), {
    retryable,
    ...(hint !== undefined && { hint: hideSecrets(secrets, hint) }),
    ...(where && { where }),
  });
}

/** How many characters at the end of a text may be the beginning of a secret that the next text completes. */
export function secretTail(secrets: readonly string[], text: string): number {
  const [longest = ""] = secrets;
  for (let length = Math.min(longest.length - 1, text.length); length > 0; length--) {
    const tail = text.slice(-length);
    if (secrets.some((secret) => secret.length > length && secret.startsWith(tail))) return length;
  }
  return 0;
}

/** Deeper than any event of a valid log. */
const maxLevels = 1_000;

/** Returns a copy of plain data in which every string, also in the names of fields, is replaced; what is deeper than 1000 levels stays. */
export function mapStrings<Value>(value: Value, replace: (text: string) => string): Value {
  const map = (one: unknown, levels: number): unknown => {
    if (typeof one === "string") return replace(one);
    if (Array.isArray(one) && levels > 0) return one.map((entry) => map(entry, levels - 1));
    if (!isObject(one) || levels === 0) return one;
    return Object.fromEntries(
      Object.entries(one).map(([name, field]) => [replace(name), map(field, levels - 1)]),
    );
  };
  return map(value, maxLevels) as Value;
}
