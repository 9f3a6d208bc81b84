import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../protocol/clock.ts";
import type { CommandLimits } from "./jail.ts";

/** A control group for the processes of one command: the kernel counts and limits their memory. */
export interface CommandGroup {
  /** Puts a process into the group, and with it all that it starts later. */
  add(pid: number): void;
  /** Whether the kernel has ended a process because the group had no memory left. */
  isOutOfMemory(): Promise<boolean>;
  /** Kills what is left in the group and removes it. */
  close(): Promise<void>;
}

/** Where control groups are. */
export interface CgroupPlace {
  readonly root: string;
  /** The file that names the group of this process. */
  readonly self: string;
}

const systemPlace: CgroupPlace = { root: "/sys/fs/cgroup", self: "/proc/self/cgroup" };
const closeAttempts = 50;
const closeMs = 10;
let count = 0;

/** Returns a function that creates groups; undefined unless this process may create them in a version 2 hierarchy. */
export function commandGroups(
  place: CgroupPlace = systemPlace,
): ((limits: CommandLimits) => CommandGroup) | undefined {
  try {
    const own = /^0::(.*)$/m.exec(readFileSync(place.self, "utf8"))?.[1];
    if (own === undefined) return undefined;
    const parent = join(place.root, own);
    const control = join(parent, "cgroup.subtree_control");
    if (!/\bmemory\b/.test(readFileSync(control, "utf8"))) writeFileSync(control, "+memory");
    const create = (limits: CommandLimits) => createGroup(parent, limits);
    // The kernel checks the rights when a group is made and limited, and not before.
    void create({ memoryBytes: 2 ** 30 } as CommandLimits).close();
    return create;
  } catch {
    return undefined; // no such hierarchy, or it is not delegated to this process
  }
}

function createGroup(parent: string, { memoryBytes }: CommandLimits): CommandGroup {
  const path = join(parent, `rivulet-${process.pid}-${++count}`);
  mkdirSync(path);
  const write = (name: string, value: string) => writeFileSync(join(path, name), value);
  try {
    write("memory.max", `${memoryBytes}`);
    write("memory.oom.group", "1");
  } catch (error) {
    rmdirSync(path);
    throw error;
  }
  try {
    write("memory.swap.max", "0");
  } catch {
    // The system has no swap.
  }
  return {
    add: (pid) => write("cgroup.procs", `${pid}`),
    async isOutOfMemory() {
      const events = await readFile(join(path, "memory.events"), "utf8").catch(() => "");
      return /^oom_kill [1-9]/m.test(events);
    },
    async close() {
      for (let attempt = 0; attempt < closeAttempts; attempt++) {
        try {
          rmdirSync(path);
          return;
        } catch {
          // Its processes have not ended yet.
        }
        try {
          write("cgroup.kill", "1");
        } catch {
          // Kernels before 5.14 do not have it; the jail kills the processes.
        }
        await systemClock.sleep(closeMs);
      }
    },
  };
}
