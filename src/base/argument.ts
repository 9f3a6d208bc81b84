import { RivuletError } from "./error.ts";
import { isObject } from "./plain.ts";

// The checks of the functions of rivulet/protocol: small, because a page bundles them. options.ts checks settings.

/** Returns the result of `read`; throws `invalid_argument` if it returns false or throws. */
export function readInput<T>(
  place: string,
  expected: string,
  value: unknown,
  read: () => T | false,
): T {
  let cause: unknown;
  try {
    const result = read();
    if (result !== false) return result;
  } catch (error) {
    if (error instanceof RivuletError) throw error;
    cause = error;
  }
  const message = `\`${place}\` must be ${expected}, got ${value === null ? value : typeof value}.`;
  throw new RivuletError("invalid_argument", message, { hint: `Pass ${expected}.`, cause });
}

/** Returns a string argument. */
export function readText(place: string, value: string): string {
  if (typeof value === "string") return value;
  return readInput<string>(place, "a string", value, () => false);
}

/** Returns a copy of options; `expected` has each of them with its type: "a boolean". */
export function readTyped<Settings extends object>(
  given: Settings,
  expected: { readonly [Name in keyof Required<Settings>]: string },
): Settings {
  const copy = readInput("options", "an object", given, () => isObject(given) && { ...given });
  for (const name in copy) {
    const value = copy[name];
    if (value === undefined) continue;
    if (!Object.hasOwn(expected, name)) {
      const hint = `Use ${Object.keys(expected).join(" or ")}.`;
      throw new RivuletError("invalid_argument", `There is no option \`${name}\`.`, { hint });
    }
    const type: string = expected[name as keyof Settings];
    readInput(`options.${name}`, type, value, () => type.endsWith(` ${typeof value}`));
  }
  return copy;
}
