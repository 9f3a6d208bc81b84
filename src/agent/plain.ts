/** A copy of plain objects and lists, all the way down, that can be edited; what is neither is handed on as it is. */
export function copyPlain<T>(value: T): T {
  if (Array.isArray(value)) return value.map(copyPlain) as T;
  if (!isPlainObject(value)) return value;
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) put(copy, key, copyPlain(value[key]));
  return copy as T;
}

/** Plain objects and lists can never be changed from here on, all the way down; gives back the same value. */
export function freezePlain<T>(value: T): T {
  if (Array.isArray(value)) {
    if (Object.isFrozen(value)) return value; // by us, so all the way down
    for (const entry of value) if (typeof entry === "object") freezePlain(entry);
    return Object.freeze(value);
  }
  if (!isPlainObject(value) || Object.isFrozen(value)) return value;
  for (const key in value) {
    const field = value[key];
    if (typeof field === "object") freezePlain(field);
  }
  return Object.freeze(value);
}

/** A copy that nobody can change: what was given stays its giver's own. */
export function frozenCopy<T>(value: T): T {
  return freezePlain(copyPlain(value));
}

/** Whether two values are the same plain data. */
export function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (Array.isArray(one)) {
    if (!Array.isArray(other) || one.length !== other.length) return false;
    return one.every((entry, index) => isSame(entry, other[index]));
  }
  if (!isPlainObject(one) || !isPlainObject(other)) return false;
  const keys = Object.keys(one);
  if (keys.length !== Object.keys(other).length) return false;
  return keys.every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]));
}

const maxDepth = 200;

/** A copy of a value as JSON has it; throws what cannot be JSON. So every store keeps the same. */
export function copyJson(value: unknown, depth = 0): unknown {
  if (depth > maxDepth) throw new TypeError("it is nested too deeply, or in a circle");
  if (typeof value === "bigint") throw new TypeError("JSON has no bigint");
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value !== "object" || value === null) return value;
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copyJson(toJSON.call(value), depth + 1);
  if (Array.isArray(value)) return value.map((entry) => copyJson(entry, depth + 1) ?? null);
  const copy: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(value)) {
    const copied = copyJson(field, depth + 1);
    if (copied !== undefined) put(copy, key, copied);
  }
  return copy;
}

/** A field of its own, whatever its name. */
function put(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, writable: true });
}

/** Whether a value is an object that only holds fields. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Whether a value is an object with fields, of whatever class, and no list. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
