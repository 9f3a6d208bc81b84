import { callback, readArgument, required } from "../base/options.ts";
import { type ContractCase, collectCases } from "./contract.ts";
import { directoryCases } from "./filesystem-contract/directory.ts";
import { fenceCases } from "./filesystem-contract/fence.ts";
import { type CreateFilesystem, withFilesystem } from "./filesystem-contract/fixture.ts";
import { layerCases } from "./filesystem-contract/layers.ts";
import { namespaceCases } from "./filesystem-contract/namespace.ts";
import { searchCases } from "./filesystem-contract/search.ts";
import { writeCases } from "./filesystem-contract/write.ts";

/**
 * The cases that every filesystem must pass, for any test runner. `create` opens an empty filesystem for each case. See
 * `storeContract` for how to register them.
 */
export function filesystemContract(create: CreateFilesystem): readonly ContractCase[] {
  readArgument("create", create, required(callback));
  return collectCases(withFilesystem(create), (suite) => {
    writeCases(suite);
    directoryCases(suite);
    searchCases(suite);
    fenceCases(suite);
    namespaceCases(suite);
    layerCases(suite);
  });
}
