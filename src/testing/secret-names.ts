const secretName = new RegExp(
  "(?:^|_)(?:authorization|cookies?|passwords?|passwd|pwd|passphrase|passcode|jwt|credentials?" +
    "|(?:access|auth|client|id|refresh|session|user)?(?:token|password|secrets?)" +
    "|(?:api|access|account|private|secret|signing|subscription)_?keys?)$" +
    // Most other names that end in "tokens" are counts.
    "|^pass$|^(?:(?:access|api|auth|bearer|id|refresh|session)_)?tokens$",
);

/** Whether a header, a parameter or a JSON field of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return secretName.test(inWords(name));
}

/** Names that mean a secret in a URL, a form or a header, but often something else in JSON. */
const secretParameter = /^(?:auth|code|key|sig)$|(?:^|_)(?:assertion|signature|code_verifier)$/;

/** Whether a URL or form parameter of this name holds a secret. */
export function isSecretParameter(name: string): boolean {
  return isSecretName(name) || secretParameter.test(inWords(name));
}

/** Normalizes a name: `apiKey` and `X-API-Key` both end in `api_key`. */
function inWords(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_|_$/g, "")
    .toLowerCase();
}

/** The least length of a secret that is masked elsewhere; shorter ones would mask ordinary text. */
const minNeedleLength = 6;

/** Values that describe a secret instead of being one. */
const notNeedles =
  /^(?:string|number|object|boolean|integer|required|optional|bearer|basic|include|same-origin|default|unknown|undefined|\*+|\[redacted\])$/i;

const plainWords = /^[A-Za-z]?[a-z]*(?:_[a-z]+)*$/;

/**
 * The parts of a named value to mask elsewhere. If the name only sometimes means a secret, values of plain words are left
 * out.
 */
export function needlesOf(name: string, value: string): string[] {
  const parts = /cookies?$/i.test(name)
    ? value.split(/;\s*/).map((pair) => pair.slice(pair.indexOf("=") + 1))
    : [value.replace(/^(?:apikey|basic|bearer|digest|token) +/i, "")];
  return parts.filter(
    (part) =>
      part.length >= minNeedleLength &&
      !notNeedles.test(part) &&
      (isSecretName(name) || !plainWords.test(part)),
  );
}
