import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { filesystemContract } from "./contract.ts";
import { type LocalFilesystemOptions, localFilesystem } from "./local.ts";

function contractWith(name: string, own: LocalFilesystemOptions): void {
  filesystemContract(name, async (options) => {
    const directory = await mkdtemp(join(tmpdir(), "rivulet-files-"));
    const create = () => localFilesystem(join(directory, "root"), { ...options, ...own });
    return {
      filesystem: create(),
      second: create,
      dispose: () => rm(directory, { recursive: true }),
    };
  });
}

contractWith("local", {});
contractWith("local (without handles, without ripgrep)", { handles: false, ripgrep: false });
