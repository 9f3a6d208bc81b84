import { describe, it } from "vitest";
import type { ContractCase } from "../../src/testing/contract.ts";

/** Registers the cases of a contract with vitest. */
export function registerContract(name: string, cases: readonly ContractCase[]): void {
  describe(name, () => {
    for (const { group, name, run } of cases) {
      it(`${group}: ${name}`, async ({ skip }) => {
        const reason = await run();
        if (reason !== undefined) skip(reason);
      });
    }
  });
}
