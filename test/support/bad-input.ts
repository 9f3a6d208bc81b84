import { RivuletError } from "../../src/protocol.ts";

/** Values that a type would refuse somewhere; each call creates them anew. */
function badValues(): Readonly<Record<string, unknown>> {
  const cyclic: Record<string, unknown> = { name: "cyclic" };
  cyclic.self = cyclic;
  const refuse = () => {
    throw new Error("A trap of the proxy.");
  };
  const traps = ["get", "has", "ownKeys", "getOwnPropertyDescriptor", "getPrototypeOf"] as const;
  const hostile = new Proxy({}, Object.fromEntries(traps.map((trap) => [trap, refuse])));
  const revocable = Proxy.revocable({}, {});
  revocable.revoke();
  return {
    undefined: undefined,
    null: null,
    true: true,
    zero: 0,
    "a number": -1.5,
    NaN: Number.NaN,
    "an empty string": "",
    "a string": "nonsense",
    "a long string": "x".repeat(200_000),
    "an unknown key": { unheardOf: 1 },
    "an empty object": {},
    "an empty array": [],
    "an array": [null, 1, {}],
    "a function": () => undefined,
    "a proxy": hostile,
    "a revoked proxy": revocable.proxy,
    "an own __proto__": JSON.parse('{"__proto__":{"polluted":true}}'),
    "a symbol": Symbol("odd"),
    "a bigint": 10n,
    "a cyclic object": cyclic,
    "an instance": new Map([["a", 1]]),
  };
}

/** One way to call public code; `options` are the positions of objects whose fields are varied too. */
export interface Entry {
  readonly args: () => readonly unknown[];
  readonly run: (...args: never[]) => unknown;
  readonly options?: readonly number[];
  /** Arguments that are valid by design, as "position" or "position.option", with the reason. */
  readonly skip?: Readonly<Record<string, string>>;
}

/** All calls of an entry with one bad value each. */
export function* badCalls(entry: Entry): Generator<readonly [string, readonly unknown[]]> {
  const count = entry.args().length;
  for (let position = 0; position < count; position++) {
    for (const what of Object.keys(badValues())) {
      if (entry.skip?.[`${position}`] !== undefined) continue;
      yield [`${position}: ${what}`, replaced(entry.args(), position, badValues()[what])];
    }
  }
  for (const position of entry.options ?? []) {
    const keys = Object.keys(entry.args()[position] as object);
    for (const key of keys) {
      if (entry.skip?.[`${position}.${key}`] !== undefined) continue;
      for (const what of [...Object.keys(badValues()), "a getter that throws"]) {
        const args = entry.args();
        const options = { ...(args[position] as object) };
        Object.defineProperty(options, key, {
          enumerable: true,
          configurable: true,
          ...(what === "a getter that throws"
            ? {
                get: () => {
                  throw new Error("A getter.");
                },
              }
            : { value: badValues()[what] }),
        });
        yield [`${position}.${key}: ${what}`, replaced(args, position, options)];
      }
    }
    const args = entry.args();
    const misspelled = { ...(args[position] as object), unheardOf: 1 };
    yield [`${position}: one unknown option`, replaced(args, position, misspelled)];
  }
}

function replaced(args: readonly unknown[], position: number, value: unknown): readonly unknown[] {
  return args.map((arg, index) => (index === position ? value : arg));
}

/** Why a call breaks the rule "success or a RivuletError with code, message and hint"; undefined if it keeps it. */
export async function problemOf(call: () => unknown): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const hang = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve("hangs"), 5_000);
  });
  try {
    return await Promise.race([settle(call), hang]);
  } finally {
    clearTimeout(timer);
  }
}

async function settle(call: () => unknown): Promise<string | undefined> {
  try {
    const result = await call();
    const iterable = result as Partial<AsyncIterable<unknown>> | undefined;
    if (typeof iterable?.[Symbol.asyncIterator] === "function") {
      for await (const _ of iterable as AsyncIterable<unknown>);
    }
    return undefined;
  } catch (error) {
    if (!(error instanceof RivuletError)) {
      const { stack } = error instanceof Error ? error : { stack: "" };
      return `throws ${String(error)} ${stack?.split("\n")[1] ?? ""}`;
    }
    const { code, message, hint } = error;
    if (code && message && hint) return undefined;
    return `throws ${code} without a hint: ${message}`;
  }
}

/** The names of all functions of an object, of its class and of the classes above it. */
export function methodsOf(value: object): readonly string[] {
  const names = new Set<string>();
  for (let at = value; at && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const [key, { value: member }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof member === "function" && key !== "constructor") names.add(key);
    }
  }
  return [...names].sort();
}
