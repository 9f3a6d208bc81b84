/** The text of a file between marks that tell a model where it begins and ends; the text itself cannot end it. */
export function framed(mark: string, path: string, text: string): string {
  let unused = mark;
  for (let n = 2; text.includes(`</${unused}>`); n++) unused = `${mark}-${n}`;
  return `<${unused} path=${JSON.stringify(path)}>\n${text}\n</${unused}>`;
}
