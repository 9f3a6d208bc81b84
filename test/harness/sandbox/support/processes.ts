import { readdirSync, readFileSync } from "node:fs";

/** Returns the pids of live processes whose command line contains a text; a killed process that nobody has reaped is not live. */
export function processesWith(text: string): readonly number[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      const line = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ");
      const isZombie = /^State:\s+Z/m.test(readFileSync(`/proc/${name}/status`, "utf8"));
      return line.includes(text) && !isZombie ? [Number(name)] : [];
    } catch {
      return []; // it has just ended
    }
  });
}
