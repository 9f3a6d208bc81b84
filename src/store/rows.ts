/** A row with its place in the order of insertion. */
interface NumberedRow {
  readonly number: number;
}

/** Rows by id, found by the values of some keys without a scan. */
export interface Rows<Row extends NumberedRow, Key extends string> {
  readonly size: number;
  get(id: string): Row | undefined;
  /** Adds or replaces a row. */
  set(id: string, row: Row): void;
  delete(id: string): void;
  /** A new list of the rows that have all the given values, in the order of their numbers. */
  match(query: { readonly [K in Key]?: string | undefined }): Row[];
}

/** The rows with one value of a key: mostly a single one, which needs no set. */
type Group<Row> = Row | Set<Row>;

/** An empty table with an index on each of the keys; a row without a value for a key is not in its index. */
export function createRows<Row extends NumberedRow, Key extends string>(
  keys: Readonly<Record<Key, (row: Row) => string | undefined>>,
): Rows<Row, Key> {
  let rows = new Map<string, Row>();
  const indexes = (Object.keys(keys) as Key[]).map((key) => ({
    key,
    keyOf: keys[key],
    groups: new Map<string, Group<Row>>(),
  }));

  function remove(id: string): void {
    const row = rows.get(id);
    if (row === undefined) return;
    rows = withoutKey(rows, id);
    for (const index of indexes) {
      const value = index.keyOf(row);
      if (value === undefined) continue;
      const group = index.groups.get(value);
      if (group instanceof Set && group.size > 1) group.delete(row);
      else index.groups = withoutKey(index.groups, value);
    }
  }

  return {
    get size() {
      return rows.size;
    },
    get: (id) => rows.get(id),
    set(id, row) {
      remove(id);
      rows.set(id, row);
      for (const { keyOf, groups } of indexes) {
        const value = keyOf(row);
        if (value === undefined) continue;
        const group = groups.get(value);
        if (group === undefined) groups.set(value, row);
        else if (group instanceof Set) group.add(row);
        else groups.set(value, new Set([group, row]));
      }
    },
    delete: remove,
    match(query) {
      if (rows.size === 0) return [];
      const wanted = indexes.filter(({ key }) => query[key] !== undefined);
      let smallest: Iterable<Row> = rows.values();
      let size = rows.size;
      for (const { key, groups } of wanted) {
        const group = groups.get(query[key] as string);
        if (group === undefined) return [];
        const isSet = group instanceof Set;
        if (isSet && group.size >= size) continue;
        smallest = isSet ? group : [group];
        size = isSet ? group.size : 1;
      }
      return [...smallest]
        .filter((row) => wanted.every(({ key, keyOf }) => keyOf(row) === query[key]))
        .sort((a, b) => a.number - b.number);
    },
  };
}

/**
 * Removes a key and returns the map, or a new map if it would be empty. A map links its table to the smaller one that a
 * delete creates, so the tables of a map that is empty again and again would all reach the old space.
 */
export function withoutKey<Key, Value>(map: Map<Key, Value>, key: Key): Map<Key, Value> {
  if (map.size === 1 && map.has(key)) return new Map();
  map.delete(key);
  return map;
}
