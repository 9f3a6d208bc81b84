/** Rows by id in the order they came, found by the values of some fields without a scan. */
export interface Rows<Row extends object, Field extends keyof Row> {
  get(id: string): Row | undefined;
  /** Adds a row, or replaces it in its place. */
  set(id: string, row: Row): void;
  delete(id: string): void;
  /** A fresh list of the rows that have all the given values; a field left out matches any. */
  match(query: { readonly [F in Field]?: Row[F] | undefined }): Row[];
}

/** An empty table with an index on each of the fields. */
export function createRows<Row extends object, Field extends keyof Row>(
  fields: readonly Field[],
): Rows<Row, Field> {
  const rows = new Map<string, Row>();
  const indexes = fields.map((field) => ({ field, groups: new Map<unknown, Map<string, Row>>() }));

  function remove(id: string): void {
    const row = rows.get(id);
    if (row === undefined) return;
    for (const { field, groups } of indexes) {
      const group = groups.get(row[field]);
      group?.delete(id);
      if (group?.size === 0) groups.delete(row[field]);
    }
  }

  return {
    get: (id) => rows.get(id),
    set(id, row) {
      const old = rows.get(id);
      if (old && fields.some((field) => old[field] !== row[field])) remove(id);
      rows.set(id, row);
      for (const { field, groups } of indexes) {
        const group = groups.get(row[field]);
        if (group) group.set(id, row);
        else groups.set(row[field], new Map([[id, row]]));
      }
    },
    delete(id) {
      remove(id);
      rows.delete(id);
    },
    match(query) {
      let smallest: ReadonlyMap<string, Row> = rows;
      for (const { field, groups } of indexes) {
        if (query[field] === undefined) continue;
        const group = groups.get(query[field]);
        if (group === undefined) return [];
        if (group.size < smallest.size) smallest = group;
      }
      const wanted = fields.filter((field) => query[field] !== undefined);
      return [...smallest.values()].filter((row) =>
        wanted.every((field) => row[field] === query[field]),
      );
    },
  };
}
