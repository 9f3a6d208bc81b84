import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type LocalFilesystemOptions,
  localFilesystem,
} from "../../../src/harness/filesystem/local.ts";
import { storeFilesystem } from "../../../src/harness/filesystem/store.ts";
import { memoryStore } from "../../../src/store/index.ts";
import { filesystemContract } from "../../../src/testing/index.ts";
import { registerContract } from "../../support/contract.ts";

function localContract(own: LocalFilesystemOptions) {
  return filesystemContract(async (options) => {
    const directory = await mkdtemp(join(tmpdir(), "rivulet-files-"));
    const create = () => localFilesystem(join(directory, "root"), { ...options, ...own });
    return {
      filesystem: create(),
      second: create,
      dispose: () => rm(directory, { recursive: true }),
    };
  });
}

registerContract("local filesystem", localContract({}));
registerContract(
  "local filesystem without handles and ripgrep",
  localContract({ handles: false, ripgrep: false }),
);

registerContract(
  "store filesystem",
  filesystemContract((options) => {
    const store = memoryStore();
    return {
      filesystem: storeFilesystem(store, options),
      second: () => storeFilesystem(store, options),
      dispose: () => store.close(),
    };
  }),
);
