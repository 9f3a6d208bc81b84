const maxName = 64;

/** The names that look most like this one, at most three; of a very long one the beginning counts. */
export function nearest(name: string, names: readonly string[]): readonly string[] {
  const wanted = name.slice(0, maxName).toLowerCase();
  return names
    .map((candidate) => ({ candidate, distance: distance(wanted, candidate.toLowerCase()) }))
    .filter(({ distance }) => distance <= Math.max(2, wanted.length / 3))
    .sort((one, other) => one.distance - other.distance)
    .slice(0, 3)
    .map(({ candidate }) => candidate);
}

/** How many letters have to be changed, added or left out; 1 when one name contains the other. */
function distance(one: string, other: string): number {
  if (one !== "" && (one.includes(other) || other.includes(one))) return 1;
  let row = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
