import type { ChildProcess } from "node:child_process";
import { readlink } from "node:fs/promises";
import { join, relative } from "node:path";
import type { Readable } from "node:stream";
import { defaultEnvironment, findProgram } from "./bubblewrap.ts";
import type { Jail, SandboxOptions } from "./jail.ts";
import { runProcess } from "./process.ts";

const script = `exec 2>&1
trap 'pwd -P >&3' EXIT
eval "$1" 3>&-`;
const maxCwd = 4_096;

/** Runs commands without a jail, as the user of this process. A process that leaves its group outlives the command. */
export function noJail({ env = {} }: SandboxOptions): Jail {
  return {
    kind: "unsafe",
    async run(command, { directory }, limits) {
      const root = await readlink(directory.path).catch(() => directory.path);
      let cwd = "";
      const onSpawn = ({ stdio }: ChildProcess) => {
        const reported = stdio[3] as Readable;
        reported.setEncoding("utf8");
        reported.on("error", () => {});
        reported.on("data", (text: string) => {
          cwd = (cwd + text).slice(0, maxCwd);
        });
      };
      const { problem: _, ...ended } = await runProcess({
        file: findProgram("bash") ?? "/bin/sh",
        args: ["-c", script, "sh", command.script],
        cwd: join(root, command.cwd),
        env: { ...defaultEnvironment, ...env },
        descriptors: ["pipe"],
        timeoutMs: command.timeoutMs,
        outputBytes: limits.outputBytes,
        ...(command.signal && { signal: command.signal }),
        ...(command.onOutput && { onOutput: command.onOutput }),
        onSpawn,
      });
      const path = cwd === "" ? undefined : relative(root, cwd.replace(/\n$/, ""));
      const isInside = path !== undefined && !path.startsWith("..");
      return { ...ended, cwd: isInside ? path : command.cwd };
    },
  };
}
