/** What an attempt can use; all of it is outside the jail. */
export interface Outside {
  /** A file that everybody on this machine may read and write, with the canary in it. */
  readonly file: string;
  /** The directory of that file. */
  readonly directory: string;
  /** The process that runs the jail. */
  readonly pid: number;
  /** A port of this machine that accepts connections and answers with the canary. */
  readonly port: number;
  /** The path of a socket that answers with the canary, and an abstract one. */
  readonly socket: string;
  readonly abstractSocket: string;
  /** The directory of another user's files in the same workspace. */
  readonly otherUser: string;
  readonly arch: string;
}

/** A script that prints `ESCAPED` or the canary if it succeeds; what it may have changed outside is checked after it. */
export type Attempt = readonly [name: string, script: string];

/** Reads a file and prints it. */
const read = (path: string): Attempt => [`read ${path}`, `cat ${path} && echo ESCAPED`];
/** Reads a path that exists in the jail too, but must not show the outside. */
const look = (name: string, script: string): Attempt => [name, script];
const write = (path: string): Attempt => [`write ${path}`, `echo x > ${path} && echo ESCAPED`];
/** Makes a system call; `arguments` is Perl. */
const call = (name: string, number: number, args: string): Attempt => [
  `call ${name}`,
  `perl -e 'print syscall(${number}, ${args}) >= 0 ? "ESCAPED" : "refused"'`,
];

/** The attempts of all kinds. */
export function attemptsOn(outside: Outside): readonly Attempt[] {
  return [
    ...readAttempts(outside),
    ...writeAttempts(outside),
    ...kernelAttempts(outside),
    ...networkAttempts(outside),
    ...workspaceAttempts(outside),
  ];
}

function readAttempts({ file, directory, pid, otherUser }: Outside): readonly Attempt[] {
  return [
    read(file),
    read("/etc/shadow"),
    read("/etc/sudoers"),
    read("/etc/hostname"),
    read("/etc/machine-id"),
    read("/etc/ssh/sshd_config"),
    read("/root/.bashrc"),
    read("/root/.ssh/id_rsa"),
    read("~/.ssh/id_rsa"),
    read("~root/.profile"),
    read("/home/*/.bashrc"),
    read("/var/log/dpkg.log"),
    read("/var/lib/dpkg/status"),
    read("/boot/config*"),
    read(`/proc/${pid}/environ`),
    read(`/proc/${pid}/cmdline`),
    read(`/proc/${pid}/maps`),
    read(`/proc/${pid}/root${file}`),
    read(`/proc/${pid}/cwd/package.json`),
    read(`/proc/1/root${file}`),
    read(`/proc/self/root${file}`),
    read(`/proc/self/root/../../..${file}`),
    read(`/proc/self/cwd/../../..${file}`),
    read(`/workspace/../..${file}`),
    read(`/workspace/../../../../..${file}`),
    read(otherUser),
    read("/workspace/.rivulet/files.lock"),
    read("/proc/kcore"),
    read("/proc/kmsg"),
    read("/dev/mem"),
    read("/dev/kmsg"),
    read("/dev/vda"),
    read("/dev/sda"),
    read("/dev/nvme0n1"),
    read("/dev/loop-control"),
    read("/dev/fuse"),
    read("/dev/kvm"),
    read("/dev/net/tun"),
    read("/dev/vsock"),
    read("/sys/class/net/eth0/address"),
    read("/sys/kernel/security/lsm"),
    read("/run/systemd/private"),
    read("/run/utmp"),
    look("list /run", '[ -n "$(ls -A /run 2>/dev/null)" ] && echo ESCAPED'),
    look("list /home", "ls /home 2>/dev/null && echo ESCAPED"),
    look("list /var", "ls /var 2>/dev/null && echo ESCAPED"),
    look("list /mnt", "ls /mnt 2>/dev/null && echo ESCAPED"),
    look("list /sys", "ls /sys 2>/dev/null && echo ESCAPED"),
    look("list the directory of the file", `ls ${directory} 2>/dev/null && echo ESCAPED`),
    look("see the environment", "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"),
    look("see processes of the machine", `[ -d /proc/${pid} ] && echo ESCAPED`),
    look("count processes", '[ "$(ls -d /proc/[0-9]* | wc -l)" -gt 8 ] && echo ESCAPED'),
    look("see inherited descriptors", "ls /proc/self/fd | grep -qvx '[0-3]' && echo ESCAPED"),
    look(
      "see descriptors of the first process",
      "ls -l /proc/1/fd | grep -v 'pipe:\\|socket:\\|null' | grep -q rivulet && echo ESCAPED",
    ),
    look(
      "see the arguments of the jail",
      "tr '\\0' ' ' < /proc/1/cmdline | grep -q 'ro''-bind' && echo ESCAPED",
    ),
    look("read the real passwd", '[ "$(wc -l < /etc/passwd)" -gt 1 ] && echo ESCAPED'),
    look("see the host name", '[ "$(uname -n)" = sandbox ] || echo ESCAPED'),
    look(
      "find the file by its name",
      `find / -xdev -name "$(basename ${file})" 2>/dev/null | grep -q . && echo ESCAPED`,
    ),
  ];
}

function writeAttempts({ file, directory, pid }: Outside): readonly Attempt[] {
  return [
    write(file),
    write(`${directory}/new`),
    write("/etc/passwd"),
    write("/etc/cron.d/evil"),
    write("/etc/ld.so.preload"),
    write("/etc/profile.d/evil.sh"),
    write("/usr/bin/evil"),
    write("/usr/local/bin/git"),
    write("/bin/evil"),
    write("/lib/evil.so"),
    write("/evil"),
    write("/run/evil"),
    write("/var/tmp/evil"),
    write("~root/evil"),
    write("/dev/evil"),
    write("/proc/sysrq-trigger"),
    // Opened without a write: a success would change the machine that runs the tests.
    ["open /proc/sys/kernel/core_pattern", "(: >> /proc/sys/kernel/core_pattern) && echo ESCAPED"],
    ["open /proc/sys/kernel/modprobe", "(: >> /proc/sys/kernel/modprobe) && echo ESCAPED"],
    [
      "open /proc/sys/vm/overcommit_memory",
      "(: >> /proc/sys/vm/overcommit_memory) && echo ESCAPED",
    ],
    ["open /proc/sys/net/ipv4/ip_forward", "(: >> /proc/sys/net/ipv4/ip_forward) && echo ESCAPED"],
    ["open /proc/irq", "(: >> /proc/irq/default_smp_affinity) && echo ESCAPED"],
    ["open /sys/power/state", "(: >> /sys/power/state) && echo ESCAPED"],
    ["open a cgroup", "(: >> /sys/fs/cgroup/cgroup.procs) && echo ESCAPED"],
    [`open /proc/${pid}/mem`, `(: >> /proc/${pid}/mem) && echo ESCAPED`],
    [`lower the oom score of ${pid}`, `(: >> /proc/${pid}/oom_score_adj) && echo ESCAPED`],
    [
      "patch its own read-only code",
      'perl -e \'open(F, "+<", "/usr/bin/perl") and print "ESCAPED"\'',
    ],
    ["make /usr writable", "mount -o remount,rw /usr && echo ESCAPED"],
    ["make / writable", "mount -o remount,rw / && echo ESCAPED"],
    ["unmount /usr", "umount -l /usr && echo ESCAPED"],
    ["mount a tmpfs", "mount -t tmpfs none /tmp && echo ESCAPED"],
    ["bind /", "mkdir -p /tmp/m && mount --bind / /tmp/m && echo ESCAPED"],
    ["mount proc", "mkdir -p /tmp/p && mount -t proc proc /tmp/p && echo ESCAPED"],
    ["make a device", "mknod /tmp/disk b 254 0 && echo ESCAPED"],
    ["make a device in the workspace", "mknod disk b 8 0 && echo ESCAPED"],
    ["link to the file", `ln ${file} /workspace/hard && echo ESCAPED`],
  ];
}

function kernelAttempts({ arch, pid }: Outside): readonly Attempt[] {
  const number = (x64: number, arm64: number) => (arch === "arm64" ? arm64 : x64);
  return [
    ["become root", "su -c id && echo ESCAPED"],
    ["use sudo", "sudo -n id && echo ESCAPED"],
    ["change the user", 'perl -e \'$> = 0; $< = 0; print $> == 0 ? "ESCAPED" : "refused"\''],
    ["change the owner of a file", "touch f && chown 0:0 f && echo ESCAPED"],
    [
      "run a setuid program",
      "cp /usr/bin/id s && chmod 4755 s && chown 0 s 2>/dev/null; ./s -u | grep -qx 0 && echo ESCAPED",
    ],
    [
      "have capabilities",
      "grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status | grep -qv '0000000000000000' && echo ESCAPED",
    ],
    ["gain privileges", "grep -q '^NoNewPrivs:.*1' /proc/self/status || echo ESCAPED"],
    [
      "run without a system call filter",
      "grep -q '^Seccomp:.*2' /proc/self/status || echo ESCAPED",
    ],
    ["make a user namespace", "unshare -U true && echo ESCAPED"],
    ["make a mount namespace", "unshare -m true && echo ESCAPED"],
    ["make a network namespace", "unshare -n true && echo ESCAPED"],
    ["enter the namespace of process 1", "nsenter -t 1 -m true && echo ESCAPED"],
    ["enter the namespace of the server", `nsenter -t ${pid} -m true && echo ESCAPED`],
    ["start another jail", "bwrap --ro-bind / / true && echo ESCAPED"],
    ["change the root", "chroot /usr true && echo ESCAPED"],
    ["break out of a chroot", 'perl -e \'mkdir "/tmp/c"; chroot("/tmp/c") and print "ESCAPED"\''],
    ["kill the server", `kill -0 ${pid} && echo ESCAPED`],
    ["kill everything", "kill -9 -1; true"],
    ["raise a limit", "ulimit -n 100000 && echo ESCAPED"],
    ["raise the limit of processes", "ulimit -u 100000 && echo ESCAPED"],
    [
      "raise the priority",
      'nice -n -10 true 2>&1 | grep -q cannot || [ "$(nice -n -10 nice)" -ge 0 ] || echo ESCAPED',
    ],
    ["write core dumps", '[ "$(ulimit -c)" = 0 ] || echo ESCAPED'],
    ["have a terminal", "(: < /dev/tty) 2>/dev/null && echo ESCAPED"],
    [
      "type into the terminal",
      'perl -e \'$r = ioctl(STDOUT, 0x5412, "x"); print defined $r ? "ESCAPED" : "refused"\'',
    ],
    call("mount", number(165, 40), "0, 0, 0, 0, 0"),
    call("unshare a user namespace", number(272, 97), "0x10000000"),
    call("unshare a mount namespace", number(272, 97), "0x20000"),
    call("clone a user namespace", number(56, 220), "0x10000011, 0, 0, 0, 0"),
    call("clone3", 435, "0, 0"),
    call("setns", number(308, 268), "0, 0"),
    call("pivot_root", number(155, 41), '"/tmp", "/tmp"'),
    call("ptrace the server", number(101, 117), `16, ${pid}, 0, 0`),
    call("ptrace itself", number(101, 117), "0, 0, 0, 0"),
    call("bpf", number(321, 280), "0, 0, 0"),
    call("perf_event_open", number(298, 241), "0, 0, -1, -1, 0"),
    call("userfaultfd", number(323, 282), "0"),
    call("keyctl", number(250, 219), "0, -3, 1"),
    call("add_key", number(248, 217), '"user", "x", "y", 1, -3'),
    call("io_uring_setup", 425, '1, "\\0" x 128'),
    call("open_by_handle_at", number(304, 265), "-100, 0, 0"),
    call("kexec_load", number(246, 104), "0, 0, 0, 0"),
    call("init_module", number(175, 105), "0, 0, 0"),
    call("reboot without effect", number(169, 142), "0, 0, 0, 0"),
    call("swapoff", number(168, 225), '"/none"'),
    call("settimeofday", number(164, 170), "0, 0"),
    call("sethostname", number(170, 161), '"evil", 4'),
    call("syslog", number(103, 116), "2, 0, 0"),
    call("fsopen", 430, '"tmpfs", 0'),
    call("open_tree", 428, '-100, "/", 1'),
    call("process_vm_readv", number(310, 270), `${pid}, 0, 0, 0, 0, 0`),
    call("pidfd_getfd", 438, "0, 0, 0"),
    call("quotactl", number(179, 60), "0, 0, 0, 0"),
    call("acct", number(163, 89), "0"),
    call("a 32-bit call number", 0x4000_0000 + 39, "0"),
  ];
}

function networkAttempts({ port, socket, abstractSocket, arch }: Outside): readonly Attempt[] {
  const open = arch === "arm64" ? 198 : 41;
  const connect = (host: string, to: number) =>
    `timeout 2 bash -c 'exec 3<>/dev/tcp/${host}/${to} && head -c 100 <&3 && echo ESCAPED'`;
  return [
    ["connect to a port of the machine", connect("127.0.0.1", port)],
    ["connect to localhost", connect("localhost", port)],
    ["connect over IPv6", connect("::1", port)],
    ["connect to a private address", connect("10.0.0.1", 80)],
    ["connect to the metadata address", connect("169.254.169.254", 80)],
    ["connect to a name server", connect("8.8.8.8", 53)],
    ["resolve a name", "getent hosts example.com && echo ESCAPED"],
    ["send a datagram", `timeout 2 bash -c 'echo x > /dev/udp/169.254.169.254/80 && echo ESCAPED'`],
    [
      "see interfaces of the machine",
      "grep -E ':' /proc/net/dev | grep -qv ' *lo:' && echo ESCAPED",
    ],
    ["see a route", "tail -n +2 /proc/net/route | grep -q . && echo ESCAPED"],
    [
      "see sockets of the machine",
      `grep -qi ':${port.toString(16)} ' /proc/net/tcp && echo ESCAPED`,
    ],
    ["connect to a socket by path", unixConnect(socket)],
    ["connect to an abstract socket", unixConnect(abstractSocket)],
    ["connect to docker", unixConnect("/var/run/docker.sock")],
    ["connect to the bus", unixConnect("/run/dbus/system_bus_socket")],
    call("open a vsock", open, "40, 1, 0"),
    call("open a packet socket", open, "17, 3, 0"),
    call("open a bluetooth socket", open, "31, 3, 0"),
    call("open a raw socket", open, "2, 3, 1"),
    call("open an alg socket", open, "38, 5, 0"),
  ];
}

function unixConnect(path: string): string {
  const address = path.startsWith("\0") ? `"\\0${path.slice(1)}"` : `"${path}"`;
  return `perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); alarm 2; connect(S, pack_sockaddr_un(${address})) and print "ESCAPED", <S>'`;
}

/** Attempts to change what steers the agent, or to leave something for the machine or another user. */
function workspaceAttempts({ file }: Outside): readonly Attempt[] {
  const controls = ["AGENTS.md", "tools.json", "skills", "subagents", "knowledge", "agents"];
  return [
    ...controls.flatMap((name): readonly Attempt[] => [
      [`replace ${name}`, `rm -rf ${name} && echo evil > ${name} && echo ESCAPED`],
      [`move ${name} away`, `mv ${name} elsewhere && echo ESCAPED`],
      [
        `write into ${name}`,
        `(echo evil >> ${name} || echo evil > ${name}/evil) 2>/dev/null && echo ESCAPED`,
      ],
      [`change the mode of ${name}`, `chmod 777 ${name} 2>/dev/null && echo ESCAPED`],
    ]),
    ["hide AGENTS.md", "touch .wh.AGENTS.md; true"],
    ["add a git hook", "mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit && echo ESCAPED"],
    ["configure git", "echo evil >> .git/config && echo ESCAPED"],
    ["plant files of another user", "mkdir -p .rivulet/namespaces/user-eve; true"],
    ["rename the workspace", "mv /workspace /elsewhere && echo ESCAPED"],
    ["replace the workspace", "rmdir /workspace && echo ESCAPED"],
    [
      "change the instructions of a subagent",
      "echo evil > defs/reviewer/AGENTS.md && echo ESCAPED",
    ],
    [
      "move a subagent away",
      "mv defs old && mkdir -p defs/reviewer && echo evil > defs/reviewer/AGENTS.md && echo ESCAPED",
    ],
    ["move a subagent's directory away", "mv defs/reviewer defs/x && echo ESCAPED"],
    ["leave a link to the file", `ln -sf ${file} link-to-file; cat link-to-file && echo ESCAPED`],
    [
      "leave a link to a directory",
      "ln -sfn / link-to-root; cat link-to-root/etc/shadow && echo ESCAPED",
    ],
    ["leave a pipe", "mkfifo pipe 2>/dev/null; true"],
    [
      "leave a socket",
      "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un(\"sock\"))'; true",
    ],
    ["leave something in /tmp", "echo x > /tmp/left; echo x > /dev/shm/left; true"],
    ["find something in /tmp", "ls -A /tmp /dev/shm | grep left && echo ESCAPED"],
  ];
}
