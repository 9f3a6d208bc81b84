/** Whether a text matches a glob; backtracking only to the last `*` bounds the time by pattern times text. */
export function matchesGlob(glob: string, text: string): boolean {
  let at = 0;
  let star = -1;
  let resume = 0;
  let i = 0;
  while (i < text.length) {
    if (glob[at] === "*") {
      star = at++;
      resume = i;
    } else if (at < glob.length && (glob[at] === "?" || glob[at] === text[i])) {
      at++;
      i++;
    } else if (star >= 0) {
      at = star + 1;
      i = ++resume;
    } else return false;
  }
  while (glob[at] === "*") at++;
  return at === glob.length;
}
