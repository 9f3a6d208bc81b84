/** Whether a value is an object, and not a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
/** A deep copy of plain objects and arrays; any other value is shared with the original. */
export function copyPlain<T>(value: T): T {
  if (Array.isArray(value)) return value.map(copyPlain) as T;
  if (!isPlainObject(value)) return value;
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(value)) put(copy, key, copyPlain(value[key]));
  return copy as T;
}

/** Freezes plain objects and arrays deeply and returns the same value. */
export function freezePlain<T>(value: T): T {
  if (Object.isFrozen(value)) return value; // by this function, so deeply; or it is no object
  if (Array.isArray(value)) {
    for (const entry of value) if (typeof entry === "object") freezePlain(entry);
  } else if (isPlainObject(value)) {
    for (const key in value) if (typeof value[key] === "object") freezePlain(value[key]);
  } else return value;
  return Object.freeze(value);
}

/** A deep, frozen copy; the original stays as it is. */
export function frozenCopy<T>(value: T): T {
  return freezePlain(copyPlain(value));
}

/** Whether two values are equal plain data. */
export function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false;
    return a.every((entry, index) => isSame(entry, b[index]));
  }
  if (!isPlainObject(a) || !isPlainObject(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && isSame(a[key], b[key]));
}

const maxDepth = 200;

/** A copy that equals its JSON round trip, so that every store keeps the same; throws if JSON cannot hold the value. */
export function copyJson(value: unknown, depth = 0): unknown {
  if (depth > maxDepth)
    throw new TypeError(`it is circular or nested deeper than ${maxDepth} levels`);
  if (typeof value === "bigint") throw new TypeError("JSON cannot hold a bigint");
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

/** Sets an own property, also for the key `__proto__`. */
function put(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== "__proto__") object[key] = value;
  else Object.defineProperty(object, key, { value, enumerable: true, writable: true });
}

/** Whether a value is an object literal or has no prototype. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The SHA-256 of a text or bytes; loads the module when it is used, because it delays the start of every program. */
export function sha256(data: string | Uint8Array, encoding: "hex" | "base64url" = "hex"): string {
  return process.getBuiltinModule("node:crypto").hash("sha256", data, encoding);
}
