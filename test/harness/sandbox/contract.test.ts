import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { sandboxFilesystem } from "../../../src/harness/filesystem/sandbox.ts";
import type { JailKind } from "../../../src/harness/sandbox/jail.ts";
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

if (hasBubblewrap) registerContract("sandbox with bubblewrap", sandboxContract("bubblewrap"));
registerContract("sandbox with just-bash", sandboxContract("just-bash"));
