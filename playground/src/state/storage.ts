/** A choice that the browser keeps; undefined if there is none, or if the browser keeps nothing for this page. */
export function readStored(name: string): string | undefined {
  try {
    return localStorage.getItem(`rivulet-${name}`) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a choice until the page is opened again, if the browser allows it. */
export function store(name: string, value: string): void {
  try {
    localStorage.setItem(`rivulet-${name}`, value);
  } catch {
    // The choice lasts as long as the page.
  }
}
