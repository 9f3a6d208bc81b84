/** A system call by its number on x64 and arm64; undefined where the architecture does not have it. */
type Call = readonly [x64: number | undefined, arm64: number | undefined];

/** Calls that no program of an agent needs and that have been used to leave a jail. They fail with EPERM. */
const refused: readonly Call[] = [
  [101, 117], // ptrace
  [310, 270], // process_vm_readv
  [311, 271], // process_vm_writev
  [312, 272], // kcmp
  [438, 438], // pidfd_getfd
  [165, 40], // mount
  [166, 39], // umount2
  [155, 41], // pivot_root
  [161, 51], // chroot
  [428, 428], // open_tree
  [429, 429], // move_mount
  [430, 430], // fsopen
  [431, 431], // fsconfig
  [432, 432], // fsmount
  [433, 433], // fspick
  [442, 442], // mount_setattr
  [467, 467], // open_tree_attr
  [304, 265], // open_by_handle_at
  [272, 97], // unshare
  [308, 268], // setns
  [248, 217], // add_key
  [249, 218], // request_key
  [250, 219], // keyctl
  [321, 280], // bpf
  [298, 241], // perf_event_open
  [323, 282], // userfaultfd
  [300, 262], // fanotify_init
  [246, 104], // kexec_load
  [320, 294], // kexec_file_load
  [175, 105], // init_module
  [313, 273], // finit_module
  [176, 106], // delete_module
  [167, 224], // swapon
  [168, 225], // swapoff
  [169, 142], // reboot
  [163, 89], // acct
  [179, 60], // quotactl
  [443, 443], // quotactl_fd
  [103, 116], // syslog
  [164, 170], // settimeofday
  [227, 112], // clock_settime
  [305, 266], // clock_adjtime
  [159, 171], // adjtimex
  [170, 161], // sethostname
  [171, 162], // setdomainname
  [153, 58], // vhangup
  [256, 238], // migrate_pages
  [279, 239], // move_pages
  [212, 18], // lookup_dcookie
  [172, undefined], // iopl
  [173, undefined], // ioperm
  [154, undefined], // modify_ldt
  [134, undefined], // uselib
];

/** Calls that programs replace by older ones when the kernel does not have them. They fail with ENOSYS. */
const absent: readonly Call[] = [
  [435, 435], // clone3, whose flags a filter cannot read
  [425, 425], // io_uring_setup
  [426, 426], // io_uring_enter
  [427, 427], // io_uring_register
  // Memory that belongs to no process, so no limit of a process counts it.
  [319, 279], // memfd_create
  [447, 447], // memfd_secret
  // Its mode is in memory, which a filter cannot read.
  [437, 437], // openat2
];

/** Calls that set the mode of a file, with the argument that has it. */
const modeCalls: readonly (readonly [...Call, argument: number])[] = [
  [90, undefined, 1], // chmod
  [91, 52, 1], // fchmod
  [268, 53, 2], // fchmodat
  [452, 452, 2], // fchmodat2
  [2, undefined, 2], // open
  [85, undefined, 1], // creat
  [257, 56, 3], // openat
  [133, undefined, 1], // mknod
  [259, 33, 2], // mknodat
];
const setIdBits = 0o6000;
const shmget: Call = [29, 194];
const maxSegmentBytes = 64 * 1024; // the kernel allows 4,096 segments

const architectures = {
  x64: { audit: 0xc000_003e, index: 0, clone: 56, ioctl: 16, socket: 41 },
  arm64: { audit: 0xc000_00b7, index: 1, clone: 220, ioctl: 29, socket: 198 },
} as const;

const namespaceFlags = 0x7e02_0000; // CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
const terminalInput = [0x5412, 0x541c]; // TIOCSTI, TIOCLINUX
const socketFamilies = [1, 2, 10, 16]; // unix, inet, inet6, netlink; vsock would reach the host of a virtual machine
const x32Bit = 0x4000_0000;

const errno = { EPERM: 1, ENOSYS: 38, EAFNOSUPPORT: 97 };
const allow = 0x7fff_0000;
const fail = (code: number) => 0x0005_0000 | code;

// The instructions of classic BPF that the filter uses, and the places of `struct seccomp_data`.
const load = 0x20;
const jumpIfEqual = 0x15;
const jumpIfAtLeast = 0x35;
const jumpIfSet = 0x45;
const end = 0x06;
const place = { number: 0, architecture: 4, argument: (index: number) => 16 + 8 * index };

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];
const loadFrom = (offset: number): Instruction => [load, 0, 0, offset];
const finish = (result: number): Instruction => [end, 0, 0, result];
/** Runs `then` for one call and skips it for all others. */
const onCall = (number: number, then: readonly Instruction[]): readonly Instruction[] => [
  [jumpIfEqual, 0, then.length, number],
  ...then,
];

/** Compiles the system call filter of a jail; undefined on an architecture that it does not know. */
export function seccompProgram(arch: string = process.arch): Uint8Array | undefined {
  if (arch !== "x64" && arch !== "arm64") return undefined;
  const { audit, index, clone, ioctl, socket } = architectures[arch];
  const failing = (calls: readonly Call[], code: number) =>
    calls.flatMap((call) => {
      const number = call[index];
      return number === undefined ? [] : onCall(number, [finish(fail(code))]);
    });
  const families = socketFamilies.map(
    (family, at): Instruction => [jumpIfEqual, socketFamilies.length - at, 0, family],
  );
  const program: readonly Instruction[] = [
    loadFrom(place.architecture),
    [jumpIfEqual, 1, 0, audit],
    finish(fail(errno.ENOSYS)),
    loadFrom(place.number),
    ...(arch === "x64"
      ? ([[jumpIfAtLeast, 0, 1, x32Bit], finish(fail(errno.ENOSYS))] as const)
      : []),
    ...failing(refused, errno.EPERM),
    ...failing(absent, errno.ENOSYS),
    ...modeCalls.flatMap(([x64, arm64, argument]) => {
      const number = index === 0 ? x64 : arm64;
      const check: readonly Instruction[] = [
        loadFrom(place.argument(argument)),
        [jumpIfSet, 0, 1, setIdBits],
        finish(fail(errno.EPERM)),
        finish(allow),
      ];
      return number === undefined ? [] : onCall(number, check);
    }),
    ...onCall(shmget[index] as number, [
      loadFrom(place.argument(1) + 4),
      [jumpIfEqual, 0, 2, 0],
      loadFrom(place.argument(1)),
      [jumpIfAtLeast, 0, 1, maxSegmentBytes + 1],
      finish(fail(errno.EPERM)),
      finish(allow),
    ]),
    ...onCall(clone, [
      loadFrom(place.argument(0)),
      [jumpIfSet, 0, 1, namespaceFlags],
      finish(fail(errno.EPERM)),
      finish(allow),
    ]),
    ...onCall(ioctl, [
      loadFrom(place.argument(1)),
      ...terminalInput.map(
        (request, at): Instruction => [jumpIfEqual, terminalInput.length - at, 0, request],
      ),
      finish(allow),
      finish(fail(errno.EPERM)),
    ]),
    ...onCall(socket, [
      loadFrom(place.argument(0)),
      ...families,
      finish(fail(errno.EAFNOSUPPORT)),
      finish(allow),
    ]),
    finish(allow),
  ];
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(([code, ifTrue, ifFalse, value], at) => {
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(ifTrue, at * 8 + 2);
    bytes.writeUInt8(ifFalse, at * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, at * 8 + 4);
  });
  return bytes;
}
