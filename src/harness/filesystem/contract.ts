import { describe } from "vitest";
import { directoryCases } from "./contract/directory.ts";
import { fenceCases } from "./contract/fence.ts";
import { type CreateFilesystem, contractTest } from "./contract/fixture.ts";
import { namespaceCases } from "./contract/namespace.ts";
import { searchCases } from "./contract/search.ts";
import { writeCases } from "./contract/write.ts";

/** The suite that every filesystem must pass; `create` makes an empty one, once for each case. */
export function filesystemContract(name: string, create: CreateFilesystem): void {
  const it = contractTest(create);
  describe(`${name} filesystem`, () => {
    writeCases(it);
    directoryCases(it);
    searchCases(it);
    fenceCases(it);
    namespaceCases(it);
  });
}
