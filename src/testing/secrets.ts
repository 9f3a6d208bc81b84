/** What stands in a recording where a secret was. */
const mask = "[redacted]";

/** What a request carries in a secret place but is shorter than this would blot out innocent text. */
const shortestFound = 8;

const secretName =
  /(?:^|[-_])(?:authorization|cookie|password|secret|token|signature|credentials?|(?:api|access|private|secret|subscription)[-_]?key)$/i;

/** The secrets that a request itself carries, in its headers and its address: a server may echo them. */
export function secretsOf(request: Request): string[] {
  const found: string[] = [];
  for (const [name, value] of request.headers) {
    if (!isSecretName(name)) continue;
    if (name === "cookie") found.push(...value.split(/;\s*/).map((pair) => after(pair, "=")));
    else found.push(after(value, " ")); // "Bearer abc" hides abc
  }
  for (const [name, value] of new URL(request.url).searchParams) {
    if (isSecretParameter(name)) found.push(value);
  }
  return found.filter((value) => value.length >= shortestFound);
}

/** The path of an address and its query, sorted, without the parameters that look like keys. */
export function safePath(url: string): string {
  const { pathname, searchParams } = new URL(url);
  const query = new URLSearchParams([...searchParams].filter(([name]) => !isSecretParameter(name)));
  query.sort();
  return query.size === 0 ? pathname : `${pathname}?${query}`;
}

/** Takes secrets out of what is about to be written. */
export interface Redactor {
  text(text: string): string;
  /** With sorted keys as well, so that equal values have equal text, and without the fields named like a secret. */
  json(value: unknown): unknown;
  /** A secret may cross a boundary, so it is blanked where it stands and the boundaries hold. */
  chunks(chunks: readonly Uint8Array[]): readonly Uint8Array[];
}

/** A redactor for these secrets, in each spelling that a body or an address may give them. */
export function createRedactor(secrets: readonly string[]): Redactor {
  const spellings = secrets.flatMap((secret) => [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
  ]);
  // Longest first: a secret inside another one must not leave the rest of it behind.
  const needles = [...new Set(spellings)].sort((a, b) => b.length - a.length);

  function text(dirty: string): string {
    return needles.reduce((clean, needle) => clean.replaceAll(needle, mask), dirty);
  }

  function json(value: unknown): unknown {
    if (typeof value === "string") return text(value);
    if (Array.isArray(value)) return value.map(json);
    if (typeof value !== "object" || value === null) return value;
    const fields = Object.entries(value).map(([name, field]): [string, unknown] => [
      text(name),
      typeof field === "string" && isSecretName(name) ? mask : json(field),
    ]);
    return Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  function chunks(dirty: readonly Uint8Array[]): readonly Uint8Array[] {
    const whole = Buffer.concat(dirty);
    for (const needle of needles.map((spelling) => Buffer.from(spelling))) {
      for (let at = whole.indexOf(needle); at !== -1; at = whole.indexOf(needle, at + 1)) {
        whole.fill("*", at, at + needle.length);
      }
    }
    let end = 0;
    return dirty.map((chunk) => {
      end += chunk.length;
      return whole.subarray(end - chunk.length, end);
    });
  }

  return { text, json, chunks };
}

/** What follows the first separator; all of it when there is none. */
function after(text: string, separator: string): string {
  return text.slice(text.indexOf(separator) + 1);
}

/** Whether a header, a parameter or a JSON field of this name holds a secret. */
function isSecretName(name: string): boolean {
  return secretName.test(name.replace(/([a-z])([A-Z])/g, "$1_$2"));
}

/** In an address short names are keys as well. */
function isSecretParameter(name: string): boolean {
  return isSecretName(name) || name === "key" || name === "sig";
}
