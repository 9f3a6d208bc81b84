const secretName = new RegExp(
  "(?:^|_)(?:authorization|cookies?|passwords?|passwd|pwd|passphrase|passcode|jwt|credentials?" +
    "|(?:access|auth|client|id|refresh|session|user)?(?:token|password|secrets?)" +
    "|(?:api|access|account|private|secret|signing|subscription)_?keys?)$" +
    // Of the names in the plural that end in tokens most are about counting.
    "|^pass$|^(?:(?:access|api|auth|bearer|id|refresh|session)_)?tokens$",
);

/** Whether a header, a parameter or a JSON field of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return secretName.test(inWords(name));
}

/** Names that are secret in an address, a form or a header; elsewhere they are as often about something else. */
const secretParameter = /^(?:auth|code|key|sig)$|(?:^|_)(?:assertion|signature|code_verifier)$/;

/** Whether a parameter of this name, of an address or of a form, holds a secret. */
export function isSecretParameter(name: string): boolean {
  return isSecretName(name) || secretParameter.test(inWords(name));
}

/** `apiKey`, `X-API-Key` and `user[api_key]` are all `api_key` at the end. */
function inWords(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_|_$/g, "")
    .toLowerCase();
}

/** What a secret has to have to be looked for elsewhere; less would blot out innocent text. */
const shortestNeedle = 6;

/** What fields named like a secret say about it, instead of holding it. */
const notNeedles =
  /^(?:string|number|object|boolean|integer|required|optional|bearer|basic|include|same-origin|default|unknown|undefined|\*+|\[redacted\])$/i;

const plainWords = /^[A-Za-z]?[a-z]*(?:_[a-z]+)*$/;

/**
 * What to look for elsewhere of a value with this name; where the name is only sometimes a secret's, what is made of plain
 * words is not.
 */
export function needlesOf(name: string, value: string): string[] {
  const parts = /cookies?$/i.test(name)
    ? value.split(/;\s*/).map((pair) => pair.slice(pair.indexOf("=") + 1))
    : [value.replace(/^(?:apikey|basic|bearer|digest|token) +/i, "")];
  return parts.filter(
    (part) =>
      part.length >= shortestNeedle &&
      !notNeedles.test(part) &&
      (isSecretName(name) || !plainWords.test(part)),
  );
}
