const maxNameBytes = 255;

/** What a name may not have, on any system, so that a path means the same wherever it is used. */
const refused: readonly (readonly [RegExp, string])[] = [
  [/\p{Cc}/u, "has a control character"],
  [/[\p{Bidi_Control}\p{Noncharacter_Code_Point}\p{Zl}\p{Zp}]/u, "has an invisible character"],
  [/\\/, "has a backslash: write / between names"],
  [/:/, "has a colon"],
  [/[\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe68]/u, "has a character that looks like a slash"],
  [/^\s|[\s.]$/u, "begins or ends with a space, or ends with a dot"],
  [/%(?:00|2[5ef]|5c|c[01]|e0%[89]|f0%8|u[0-9a-f]{4})/i, "has an encoded dot or slash"],
  [/^(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9¹²³])(?:\.|$)/i, "names a device"],
  [/^[^~.]{1,8}~[0-9]{1,6}(?:\.[^.]{0,3})?$/, "looks like the short form of another name"],
];

/** Why a name cannot be used for a file or a directory; undefined: it can. */
export function nameProblem(name: string): string | undefined {
  if (Buffer.byteLength(name) > maxNameBytes) return `is longer than ${maxNameBytes} bytes`;
  for (const [pattern, problem] of refused) if (pattern.test(name)) return problem;
  const plain = name.normalize("NFKC");
  // Some systems and some later reader may take a look-alike for the real one.
  if (/[/\\]|^\.+$/.test(plain)) return "has characters that stand for dots or slashes";
  if (foldName(name).startsWith(reservedPrefix)) return "is reserved";
  return undefined;
}

/** What no path of a model reaches: namespaces, locks and half-written files have names that begin so. */
export const reservedPrefix = ".rivulet";

/** One form for all spellings that some disk takes for the same name. */
export function foldName(name: string): string {
  return name
    .normalize("NFKC")
    .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
    .toUpperCase()
    .toLowerCase();
}
