const maxTexts = 1_000;
const texts = new Map<string, string>();

/** The same string for equal texts, for a text that a store in memory keeps with each of many messages. */
export function sharedText(text: string): string {
  const known = texts.get(text);
  if (known !== undefined) return known;
  if (texts.size === maxTexts) texts.clear();
  texts.set(text, text);
  return text;
}
