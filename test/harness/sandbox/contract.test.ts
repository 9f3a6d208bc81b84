import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { sandboxFilesystem } from "../../../src/harness/filesystem/sandbox.ts";
import { storeFilesystem } from "../../../src/harness/filesystem/store.ts";
import type { JailKind } from "../../../src/harness/sandbox/jail.ts";
import { memoryStore } from "../../../src/index.ts";
import { filesystemContract } from "../../../src/testing.ts";
import { registerContract } from "../../support/contract.ts";
import { temporaryDirectory } from "../filesystem/support/temporary.ts";
import { hasBubblewrap } from "./support/sandbox.ts";

function sandboxContract(jail: JailKind) {
  return filesystemContract(async (options) => {
    const directory = await temporaryDirectory({ inMemory: true });
    await chmod(directory, 0o755);
    const create = () => sandboxFilesystem(join(directory, "root"), { ...options, jail });
    return { filesystem: create(), second: create };
  });
}

function storeSandboxContract(jail: JailKind) {
  return filesystemContract((options) => {
    const store = memoryStore();
    const create = () => storeFilesystem(store, { ...options, sandbox: { jail } });
    return { filesystem: create(), second: create };
  });
}

for (const jail of hasBubblewrap
  ? (["bubblewrap", "just-bash"] as const)
  : ["just-bash" as const]) {
  registerContract(`sandbox with ${jail}`, sandboxContract(jail));
  registerContract(`sandbox with ${jail}, on files of a store`, storeSandboxContract(jail));
}
