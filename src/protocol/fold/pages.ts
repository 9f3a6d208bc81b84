/** The objects that the current edit created and may change in place; undefined means all objects. */
export type Owned = Created | undefined;
/** A list of the fold: an array, or pages if it is long. */
export type List<T> = T[] | Pages<T>;

const bits = 7;
const pageSize = 1 << bits;

/** A set of objects; most edits create few, for which a list is faster than a set. */
export class Created {
  readonly #few: object[] = [];
  #many: Set<object> | undefined;

  has(object: object): boolean {
    return this.#many?.has(object) ?? this.#few.includes(object);
  }

  add(object: object): void {
    if (this.#many !== undefined) this.#many.add(object);
    else if (this.#few.push(object) > 16) this.#many = new Set(this.#few);
  }
}

/** A long list in pages: an edit copies one page and the list of pages. */
export class Pages<T> {
  readonly pages: T[][];
  length: number;
  /** The entries as one array, until the next edit. */
  flat: readonly T[] | undefined;

  constructor(pages: T[][], length: number) {
    this.pages = pages;
    this.length = length;
  }
}

/** The entry at an index; the pages of an ordered list differ in length, so it has only an entry 0. */
export function at<T>(list: List<T>, index: number): T | undefined {
  return Array.isArray(list) ? list[index] : list.pages[index >> bits]?.[index & (pageSize - 1)];
}

/** All entries. */
export function flat<T>(list: List<T>): readonly T[] {
  if (Array.isArray(list)) return list;
  list.flat ??= list.pages.flat();
  return list.flat;
}

/** The list for editing: the same one if the edit owns it, otherwise a copy. */
export function own<L extends List<unknown>>(list: L, owned: Owned): L {
  if (owned === undefined || owned.has(list)) return list;
  const copy = Array.isArray(list) ? list.slice() : new Pages(list.pages.slice(), list.length);
  owned.add(copy);
  return copy as L;
}

/** Sets an entry of a list, whose index may be the one after the last; returns the list. */
export function put<T>(list: List<T>, index: number, value: T, owned: Owned): List<T> {
  if (Array.isArray(list) && (owned === undefined || list.length <= pageSize)) {
    const array = own(list, owned);
    array[index] = value;
    return array;
  }
  const edited = own(Array.isArray(list) ? paged(list) : list, owned);
  const page = own(edited.pages[index >> bits] ?? [], owned);
  edited.pages[index >> bits] = page;
  page[index & (pageSize - 1)] = value;
  edited.length = Math.max(edited.length, index + 1);
  edited.flat = undefined;
  return edited;
}

/** The first entry of an ordered list that `isBefore` rejects. */
export function find<T>(list: List<T>, isBefore: (entry: T) => boolean): T | undefined {
  const page = Array.isArray(list) ? list : list.pages[searchPages(list, isBefore)];
  return page?.[search(page, isBefore)];
}

/** The last entry of an ordered list. */
export function last<T>(list: List<T>): T | undefined {
  const page = Array.isArray(list) ? list : (list.pages[list.pages.length - 1] as T[]);
  return page[page.length - 1];
}

/** The first page of a list. */
export function firstPage<T>(list: List<T>): readonly T[] {
  return Array.isArray(list) ? list : (list.pages[0] as T[]);
}

/**
 * Edits an ordered list at the first entry that `isBefore` rejects: removes `count` entries of its page and inserts.
 * Returns the list.
 */
export function splice<T>(
  list: List<T>,
  owned: Owned,
  isBefore: (entry: T) => boolean,
  count: number,
  ...added: T[]
): List<T> {
  const edited = own(list, owned);
  if (Array.isArray(edited)) {
    edited.splice(search(edited, isBefore), count, ...added);
    return edited.length > 2 * pageSize ? paged(edited) : edited;
  }
  const { pages } = edited;
  edited.length += added.length - count;
  edited.flat = undefined;
  const index = Math.min(searchPages(edited, isBefore), pages.length - 1);
  const page = own(pages[index] as T[], owned);
  pages[index] = page;
  const place = search(page, isBefore);
  const isAppended = index === pages.length - 1 && place === page.length;
  if (isAppended) page.push(...added);
  else page.splice(place, count, ...added);
  if (page.length === 0) pages.splice(index, 1);
  // A list that grows at its end has full pages, and each addition copies half a page.
  else if (page.length > (isAppended ? pageSize : 2 * pageSize))
    pages.splice(index, 0, page.splice(0, pageSize));
  return edited.length > 0 ? edited : [];
}

/** Values by key. All versions of a table share the slots of its keys, so that an edit copies only values. */
export class Table<T> {
  readonly #slots: Map<string, number>;
  #values: List<T | undefined>;
  #object: Readonly<Record<string, unknown>> | undefined;

  constructor(slots = new Map<string, number>(), values: List<T | undefined> = []) {
    this.#slots = slots;
    this.#values = values;
  }

  /** The number of keys, including those of other versions. */
  get size(): number {
    return this.#slots.size;
  }

  get(key: string): T | undefined {
    const slot = this.#slots.get(key);
    return slot === undefined ? undefined : at(this.#values, slot);
  }

  /** Returns a table with this value: the same table if the edit owns it, otherwise a copy. */
  set(key: string, value: T, owned: Owned): Table<T> {
    let slot = this.#slots.get(key);
    if (slot === undefined) {
      slot = this.#slots.size;
      this.#slots.set(key, slot);
    }
    let table: Table<T> = this;
    if (owned !== undefined && !owned.has(this)) {
      table = new Table(this.#slots, this.#values);
      owned.add(table);
    }
    table.#values = put(table.#values, slot, value, owned);
    table.#object = undefined;
    return table;
  }

  /** All values; undefined for the keys that only other versions have. */
  values(): readonly (T | undefined)[] {
    return flat(this.#values);
  }

  /** The values as a plain object, the same one until the next edit. */
  toObject<V>(view: (value: T) => V): Readonly<Record<string, V>> {
    if (this.#object !== undefined) return this.#object as Record<string, V>;
    const object: Record<string, V> = {};
    for (const [key, slot] of this.#slots) {
      const value = at(this.#values, slot);
      if (value !== undefined) object[key] = view(value);
    }
    this.#object = object;
    return object;
  }
}

function paged<T>(list: readonly T[]): Pages<T> {
  const pages: T[][] = [];
  for (let from = 0; from < list.length; from += pageSize) {
    pages.push(list.slice(from, from + pageSize));
  }
  return new Pages(pages, list.length);
}

function searchPages<T>({ pages }: Pages<T>, isBefore: (entry: T) => boolean): number {
  return search(pages, (page) => isBefore(page[page.length - 1] as T));
}

/** The first index whose entry `isBefore` rejects; most edits are at an end, so the search begins there. */
export function search<T>(list: readonly T[], isBefore: (entry: T) => boolean): number {
  let low = 0;
  let high = list.length > 0 && isBefore(list[0] as T) ? list.length : 0;
  while (low < high) {
    const middle = high === list.length ? high - 1 : (low + high) >>> 1;
    if (isBefore(list[middle] as T)) low = middle + 1;
    else high = middle;
  }
  return low;
}
