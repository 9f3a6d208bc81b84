import { join } from "node:path";
import type { Filesystem } from "../../../src/harness/filesystem/filesystem.ts";
import {
  type LocalFilesystemOptions,
  localFilesystem,
} from "../../../src/harness/filesystem/local.ts";
import { storeFilesystem } from "../../../src/harness/filesystem/store.ts";
import { memoryStore } from "../../../src/store/index.ts";
import type { ContractCase } from "../../../src/testing/contract.ts";
import { filesystemContract } from "../../../src/testing.ts";
import { registerContract } from "../../support/contract.ts";
import { temporaryDirectory } from "./support/temporary.ts";

function localContract(own: LocalFilesystemOptions, viewOf = whole) {
  return filesystemContract(async (options) => {
    const directory = await temporaryDirectory({ inMemory: true });
    const create = () => viewOf(localFilesystem(join(directory, "root"), { ...options, ...own }));
    return { filesystem: create(), second: create };
  });
}

function storeContract(viewOf = whole) {
  return filesystemContract((options) => {
    const store = memoryStore();
    const create = () => viewOf(storeFilesystem(store, options));
    return { filesystem: create(), second: create, dispose: () => store.close() };
  });
}

const whole = (files: Filesystem) => files;
const layer = (files: Filesystem) => files.within({ scope: "user", id: "user" });
/** The other cases are about the common files, which a user cannot write. */
const ofOneLayer = (cases: readonly ContractCase[]) =>
  cases.filter(({ group }) => !/^(?:namespaces|below|layers|versions of layers)$/.test(group));

registerContract("local filesystem", localContract({}));
registerContract(
  "local filesystem without handles and ripgrep",
  localContract({ handles: false, ripgrep: false }),
);
registerContract("store filesystem", storeContract());
registerContract("layer of a local filesystem", ofOneLayer(localContract({}, layer)));
registerContract("layer of a store filesystem", ofOneLayer(storeContract(layer)));
