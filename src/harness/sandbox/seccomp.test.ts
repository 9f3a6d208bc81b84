import { describe, expect, it } from "vitest";
import { seccompProgram } from "./seccomp.ts";

const audit = { x64: 0xc000_003e, arm64: 0xc000_00b7 };
type Arch = keyof typeof audit;
const allowed = 0x7fff_0000;
const errno = (code: number) => 0x0005_0000 | code;

/** Runs a program as the kernel does, on the data of one system call. */
function verdict(
  arch: Arch,
  number: number,
  args: readonly number[] = [],
  machine = audit[arch],
): number {
  const program = Buffer.from(seccompProgram(arch) ?? []);
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(machine, 4);
  for (const [index, value] of args.entries()) data.writeUInt32LE(value >>> 0, 16 + 8 * index);
  let accumulator = 0;
  for (let at = 0; ; at++) {
    const code = program.readUInt16LE(at * 8);
    const [ifTrue, ifFalse] = [program.readUInt8(at * 8 + 2), program.readUInt8(at * 8 + 3)];
    const value = program.readUInt32LE(at * 8 + 4);
    const jump = (holds: boolean) => {
      at += holds ? ifTrue : ifFalse;
    };
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else if (code === 0x15) jump(accumulator === value);
    else if (code === 0x35) jump(accumulator >= value);
    else if (code === 0x45) jump((accumulator & value) !== 0);
    else if (code === 0x06) return value;
    else throw new Error(`unknown instruction ${code}`);
  }
}

describe.each([
  ["x64", { read: 0, mount: 165, ptrace: 101, clone: 56, ioctl: 16, socket: 41, chroot: 161 }],
  ["arm64", { read: 63, mount: 40, ptrace: 117, clone: 220, ioctl: 29, socket: 198, chroot: 51 }],
] as const)("the filter for %s", (arch, call) => {
  it("allows ordinary calls and refuses dangerous ones", () => {
    expect(verdict(arch, call.read)).toBe(allowed);
    for (const number of [call.mount, call.ptrace, call.chroot, 428, 442]) {
      expect(verdict(arch, number)).toBe(errno(1));
    }
  });

  it("hides clone3, io_uring, openat2 and memory files", () => {
    const hidden = [435, 425, 426, 427, 437, 447, arch === "x64" ? 319 : 279];
    for (const number of hidden) expect(verdict(arch, number)).toBe(errno(38));
  });

  it("allows clone without new namespaces only", () => {
    expect(verdict(arch, call.clone, [0x0001_0f11])).toBe(allowed);
    for (const flag of [0x2_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000]) {
      expect(verdict(arch, call.clone, [flag | 17])).toBe(errno(1));
    }
    expect(verdict(arch, call.clone, [0x2000_0011])).toBe(errno(1));
    expect(verdict(arch, call.clone, [0x4000_0011])).toBe(errno(1));
  });

  it("refuses modes that set the user or group of a program", () => {
    const calls =
      arch === "x64"
        ? { chmod: [90, 1], fchmodat: [268, 2], openat: [257, 3] }
        : { fchmod: [52, 1], fchmodat: [53, 2], openat: [56, 3] };
    for (const [number = 0, argument = 0] of Object.values(calls)) {
      const withMode = (mode: number) => [...Array(argument).fill(0), mode];
      expect(verdict(arch, number, withMode(0o755))).toBe(allowed);
      for (const mode of [0o4755, 0o2755, 0o6777]) {
        expect(verdict(arch, number, withMode(mode))).toBe(errno(1));
      }
    }
  });

  it("allows only small segments of shared memory", () => {
    const shmget = arch === "x64" ? 29 : 194;
    expect(verdict(arch, shmget, [0, 56])).toBe(allowed);
    expect(verdict(arch, shmget, [0, 65_536])).toBe(allowed);
    expect(verdict(arch, shmget, [0, 65_537])).toBe(errno(1));
  });

  it("refuses to type into a terminal", () => {
    expect(verdict(arch, call.ioctl, [1, 0x5401])).toBe(allowed);
    expect(verdict(arch, call.ioctl, [1, 0x5412])).toBe(errno(1));
    expect(verdict(arch, call.ioctl, [1, 0x541c])).toBe(errno(1));
  });

  it("allows sockets of four families only", () => {
    for (const family of [1, 2, 10, 16]) expect(verdict(arch, call.socket, [family])).toBe(allowed);
    for (const family of [0, 3, 17, 31, 38, 40, 44]) {
      expect(verdict(arch, call.socket, [family])).toBe(errno(97));
    }
  });

  it("refuses all calls of another architecture", () => {
    expect(verdict(arch, call.read, [], 0x4000_0003)).toBe(errno(38));
  });
});

it("refuses the calls of x32", () => {
  expect(verdict("x64", 0x4000_0000)).toBe(errno(38));
});

it("has no filter for an unknown architecture", () => {
  expect(seccompProgram("riscv64")).toBeUndefined();
});
