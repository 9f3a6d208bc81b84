import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../base/clock.ts";
import { type CommandLimits, commandLimits } from "./jail.ts";

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
): ((limits: CommandLimits) => CommandGroup | undefined) | undefined {
  try {
    const own = /^0::(.*)$/m.exec(readFileSync(place.self, "utf8"))?.[1];
    if (own === undefined) return undefined;
    const parent = join(place.root, own);
    const control = join(parent, "cgroup.subtree_control");
    if (!/\bmemory\b/.test(readFileSync(control, "utf8"))) writeFileSync(control, "+memory");
    // The kernel checks the rights when a group is made and limited, and not before.
    const probe = createGroup(parent, commandLimits);
    void probe?.close();
    return probe && ((limits) => createGroup(parent, limits));
  } catch {
    return undefined; // no such hierarchy, or it is not delegated to this process
  }
}

/** Undefined if the group cannot be made: the memory of the command is added up then. */
function createGroup(parent: string, { memoryBytes }: CommandLimits): CommandGroup | undefined {
  const path = join(parent, `rivulet-${process.pid}-${++count}`);
  const write = (name: string, value: string): boolean => {
    try {
      writeFileSync(join(path, name), value);
      return true;
    } catch {
      return false;
    }
  };
  try {
    mkdirSync(path);
  } catch {
    return undefined;
  }
  if (!write("memory.max", `${memoryBytes}`) || !write("memory.oom.group", "1")) {
    rmdirSync(path);
    return undefined;
  }
  write("memory.swap.max", "0"); // absent on a system without swap
  return {
    add: (pid) => void write("cgroup.procs", `${pid}`), // it may have ended
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
        write("cgroup.kill", "1"); // absent before Linux 5.14, where only the jail kills them
        await systemClock.sleep(closeMs);
      }
    },
  };
}
