/** How many units at the end of a text are half a character: 1 after the first half of a surrogate pair, else 0. */
export function halfAtEnd(text: string): 0 | 1 {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff ? 1 : 0;
}
