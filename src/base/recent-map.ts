const maxRecent = 1_000;

/** A WeakMap that forgets what was not used for a while, because a store in memory keeps all messages alive. */
export class RecentMap<Key extends object, Value extends object> {
  #recent = new WeakMap<Key, Value>();
  #older = new WeakMap<Key, Value>();
  #count = 0;

  get(key: Key): Value | undefined {
    const recent = this.#recent.get(key);
    if (recent !== undefined) return recent;
    const older = this.#older.get(key);
    if (older !== undefined) this.set(key, older);
    return older;
  }

  set(key: Key, value: Value): void {
    if (!this.#recent.has(key)) this.#count += 1;
    if (this.#count > maxRecent) {
      this.#older = this.#recent;
      this.#recent = new WeakMap();
      this.#count = 1;
    }
    this.#recent.set(key, value);
  }

  delete(key: Key): void {
    this.#recent.delete(key);
    this.#older.delete(key);
  }
}
