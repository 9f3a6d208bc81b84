import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { commandGroups } from "./cgroup.ts";
import { commandLimits } from "./jail.ts";

/** Creates a directory with the files of a control group that this process is in. */
function hierarchy({ group = "0::/service", controllers = "memory pids" } = {}) {
  const root = mkdtempSync(join(tmpdir(), "rivulet-cgroup-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const parent = join(root, "service");
  mkdirSync(parent);
  writeFileSync(join(parent, "cgroup.subtree_control"), controllers);
  const self = join(root, "self");
  writeFileSync(self, `4:memory:/x\n${group}\n`);
  return { root, self, parent };
}

it("limits the memory of a command in a group of its own", async () => {
  const { root, self, parent } = hierarchy();
  const create = commandGroups({ root, self });
  const group = create?.({ ...commandLimits, memoryBytes: 1_000_000 });
  group?.add(4_242);
  const names = readdirSync(parent, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const name =
    names
      .map((entry) => entry.name)
      .find((entry) => existsSync(join(parent, entry, "cgroup.procs"))) ?? "";
  const read = (file: string) => readFileSync(join(parent, name, file), "utf8");
  expect(read("memory.max")).toBe("1000000");
  expect(read("memory.oom.group")).toBe("1");
  expect(read("memory.swap.max")).toBe("0");
  expect(read("cgroup.procs")).toBe("4242");
  expect(await group?.isOutOfMemory()).toBe(false);
  writeFileSync(join(parent, name, "memory.events"), "low 0\nmax 3\noom 1\noom_kill 2\n");
  expect(await group?.isOutOfMemory()).toBe(true);
  await group?.close();
  expect(read("cgroup.kill")).toBe("1");
});

it("asks for the memory controller where it is not given to groups yet", () => {
  const { root, self, parent } = hierarchy({ controllers: "" });
  expect(commandGroups({ root, self })).toBeDefined();
  expect(readFileSync(join(parent, "cgroup.subtree_control"), "utf8")).toBe("+memory");
});

it("makes no groups without a hierarchy of version 2", () => {
  const { root, self, parent } = hierarchy({ group: "1:name=systemd:/" });
  expect(commandGroups({ root, self })).toBeUndefined();
  expect(commandGroups({ root: join(root, "none"), self: join(root, "none") })).toBeUndefined();
  expect(existsSync(join(parent, "memory.max"))).toBe(false);
});
