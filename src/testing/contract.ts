import { deepEqual, equal, ok } from "node:assert/strict";

/** A case of a contract, for any test runner. */
export interface ContractCase {
  /** The subject of the case, to group cases by. */
  readonly group: string;
  readonly name: string;
  /**
   * Rejects when the implementation breaks the contract. Resolves to a reason when the case needs an ability that the
   * implementation does not have: report the case as skipped.
   */
  run(): Promise<string | undefined>;
}

/** How a contract's cases are written down. */
export interface Suite<Fixture, Options = undefined> {
  describe(group: string, define: () => void): void;
  it(name: string, run: (fixture: Fixture) => Promise<void> | void, options?: Options): void;
}

/** Opens what a case tests, runs the case and closes everything. */
export type WithFixture<Fixture, Options> = (
  run: (fixture: Fixture) => Promise<void> | void,
  options: Options | undefined,
) => Promise<void>;

/** Thrown for a case that needs an ability that the implementation does not have. */
export class MissingAbility extends Error {}

/** The cases that `define` writes down. */
export function collectCases<Fixture, Options = undefined>(
  withFixture: WithFixture<Fixture, Options>,
  define: (suite: Suite<Fixture, Options>) => void,
): readonly ContractCase[] {
  const cases: ContractCase[] = [];
  let current = "";
  define({
    describe(group, defineGroup) {
      current = group;
      defineGroup();
    },
    it(name, run, options) {
      cases.push({ group: current, name, run: () => runCase(() => withFixture(run, options)) });
    },
  });
  return cases;
}

async function runCase(run: () => Promise<void>): Promise<string | undefined> {
  try {
    await run();
    return undefined;
  } catch (error) {
    if (error instanceof MissingAbility) return error.message;
    throw error;
  }
}

/** Throws unless `actual` has every field of `expected`, at any depth; arrays must have the same length. */
export function assertMatches(actual: unknown, expected: unknown, path = "value"): void {
  if (typeof expected !== "object" || expected === null || ArrayBuffer.isView(expected)) {
    deepEqual(actual, expected, path);
    return;
  }
  ok(typeof actual === "object" && actual !== null, `${path} is not an object`);
  if (Array.isArray(expected)) {
    equal((actual as unknown[]).length, expected.length, `${path}.length`);
  }
  for (const [key, value] of Object.entries(expected)) {
    assertMatches((actual as Record<string, unknown>)[key], value, `${path}.${key}`);
  }
}
