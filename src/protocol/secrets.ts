import { isObject } from "./shape.ts";

/** Returns a copy of plain data in which every string, also in the names of fields, is replaced. */
export function mapStrings<Value>(value: Value, replace: (text: string) => string): Value {
  const map = (one: unknown): unknown => {
    if (typeof one === "string") return replace(one);
    if (Array.isArray(one)) return one.map(map);
    if (!isObject(one)) return one;
    return Object.fromEntries(
      Object.entries(one).map(([name, field]) => [replace(name), map(field)]),
    );
  };
  return map(value) as Value;
}
