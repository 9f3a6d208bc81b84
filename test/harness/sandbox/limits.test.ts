import { renameSync, writeFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { requires } from "../../support/requires.ts";
import { processesWith } from "./support/processes.ts";
import { createSandbox, hasBubblewrap } from "./support/sandbox.ts";

const hasPython = requires("python3");

/** Runs work and prints how long the event loop was blocked meanwhile. */
async function withDelay<T>(name: string, work: () => Promise<T>): Promise<T> {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const result = await work();
  delay.disable();
  const ms = (nanoseconds: number) => `${Math.round(nanoseconds / 1e6)} ms`;
  console.log(`${name}: event loop delay p99 ${ms(delay.percentile(99))}, max ${ms(delay.max)}`);
  return result;
}

describe.runIf(hasBubblewrap)("a command in bubblewrap", () => {
  it("ends with all its children when its time is over", async () => {
    const files = await createSandbox();
    const start = performance.now();
    const script = "sleep 61.25 & (sleep 61.25 & sleep 61.25) & sleep 61.25";
    const result = await files.shell.run(script, { timeoutMs: 2_000 });
    expect(result.stoppedBy).toBe("timeout");
    expect(processesWith("sleep 61.25")).toEqual([]);
    console.log(`a timeout of 2000 ms: ended after ${Math.round(performance.now() - start)} ms`);
  });

  it("ends with all its children when it is cancelled", async () => {
    const files = await createSandbox();
    const controller = new AbortController();
    const running = files.shell.run("trap '' TERM INT HUP; sleep 62.25 & sleep 62.25", {
      signal: controller.signal,
      onOutput: () => {},
    });
    while (processesWith("sleep 62.25").length === 0) await sleep(10);
    controller.abort();
    expect((await running).stoppedBy).toBe("cancel");
    expect(processesWith("sleep 62.25")).toEqual([]);
  });

  it("leaves no daemon behind", async () => {
    const files = await createSandbox();
    const script = `setsid nohup sleep 63.25 >/dev/null 2>&1 &
      (trap '' TERM HUP; setsid sh -c 'sleep 63.25; :' &) ; disown -a 2>/dev/null; sleep 0.2; echo started`;
    const result = await files.shell.run(script);
    expect(result).toMatchObject({ exitCode: 0, output: "started\n" });
    expect(processesWith("sleep 63.25")).toEqual([]);
  });

  it("keeps the beginning and the end of 100 MB of output in bounded memory", async () => {
    const files = await createSandbox();
    let streamed = 0;
    const before = process.memoryUsage().rss;
    const script = "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last";
    const result = await withDelay("100 MB of output", () =>
      files.shell.run(script, { onOutput: (text) => (streamed += text.length) }),
    );
    const grown = (process.memoryUsage().rss - before) / 1e6;
    console.log(`100 MB of output: memory grew by ${Math.round(grown)} MB`);
    expect(result.exitCode).toBe(0);
    expect(result.output.startsWith("first\nxxx")).toBe(true);
    expect(result.output.endsWith("xxx\nlast\n")).toBe(true);
    expect(result.output.length).toBeLessThan(1024 * 1024 + 100);
    expect(result.omittedBytes).toBeGreaterThan(98_000_000);
    expect(streamed).toBeLessThanOrEqual(1024 * 1024);
    expect(grown).toBeLessThan(100);
  });

  // Bounded forms: each ends by a limit of the sandbox long before the machine notices.
  const commands = {
    processes: 64,
    memoryBytes: 256 * 2 ** 20,
    tmpBytes: 2 ** 20,
    fileBytes: 8 * 2 ** 20,
  };
  const bombs: readonly (readonly [name: string, script: string, expected: RegExp])[] = [
    ["fork bomb", "bomb() { bomb | bomb & }; bomb; sleep 5; echo survived", /Resource temporarily/],
    [
      "64 GB allocation",
      'perl -e \'my $x = "a" x (64 * 2**30); print "allocated"\' 2>&1; echo ended',
      /^(?!allocated).*(?:Out of memory|panic|ended|Cannot allocate)/is,
    ],
    ["full /tmp", "head -c 100000000 /dev/zero > /tmp/full; echo ended", /No space left/],
    ["full /dev/shm", "head -c 100000000 /dev/zero > /dev/shm/full; echo ended", /No space left/],
    [
      "large file",
      "head -c 100000000 /dev/zero > big; echo ended",
      /File size limit|too large|ended/,
    ],
    ["endless loop", "while :; do :; done", /^$/],
    [
      "many small files in /tmp",
      "cd /tmp; for i in $(seq 1 100000); do echo > f$i || break; done; echo ended",
      /No space left/,
    ],
  ];

  it.each(bombs)("%s leaves this process responsive", async (name, script, expected) => {
    const files = await createSandbox({ jail: "bubblewrap", commands });
    const result = await withDelay(name, () => files.shell.run(script, { timeoutMs: 4_000 }));
    expect(result.output).toMatch(expected);
    expect(await files.shell.run("echo next")).toMatchObject({ exitCode: 0, output: "next\n" });
  });

  it("stops a command that never ends its output", async () => {
    const files = await createSandbox({ jail: "bubblewrap", commands: { outputBytes: 10_000 } });
    const result = await withDelay("yes", () => files.shell.run("yes"));
    expect(result).toMatchObject({ stoppedBy: "output" });
    expect(result.output.startsWith("y\ny\n")).toBe(true);
  });

  it("is stopped when the operator replaces a file that steers the agent", async () => {
    const files = await createSandbox();
    const path = join(files.root, "AGENTS.md");
    await writeFile(path, "one");
    const running = files.shell.run("echo started; sleep 20", {
      onOutput: () => {
        writeFileSync(`${path}.new`, "two");
        renameSync(`${path}.new`, path);
      },
    });
    expect((await running).stoppedBy).toBe("control");
    expect(await readFile(path, "utf8")).toBe("two");
  });

  it("stops processes that together use too much memory", async () => {
    const files = await createSandbox({
      jail: "bubblewrap",
      commands: { memoryBytes: 120 * 2 ** 20 },
    });
    const hog = `perl -e 'my $x = "a" x (30 * 2**20); sleep 20'`;
    const script = Array.from({ length: 6 }, () => `${hog} &`).join("\n");
    const result = await files.shell.run(`${script}\nwait`, { timeoutMs: 15_000 });
    expect(result.stoppedBy).toBe("memory");
  });

  it.skipIf(!hasPython).each([
    [
      "pages that processes share",
      `mmap.mmap(-1, 400 << 20)`,
      "[m.__setitem__(i, 1) for i in range(0, 400 << 20, 4096)]",
    ],
    [
      "a file in /dev/shm",
      `mmap.mmap(os.open("/dev/shm/x", os.O_CREAT | os.O_RDWR), 400 << 20)`,
      "[m.__setitem__(i, 1) for i in range(0, 400 << 20, 4096)]",
    ],
  ])("counts %s", async (_, map, touch) => {
    const files = await createSandbox({
      jail: "bubblewrap",
      commands: { memoryBytes: 200 * 2 ** 20, tmpBytes: 2 ** 30 },
    });
    await files.write(
      "hog.py",
      `import mmap, os, time\nif os.path.exists("/dev/shm"): open("/dev/shm/x", "wb").truncate(400 << 20)\nm = ${map}\n${touch}\ntime.sleep(20)\n`,
    );
    const result = await files.shell.run("python3 hog.py", { timeoutMs: 15_000 });
    expect(result.stoppedBy).toBe("memory");
  });

  it.skipIf(!hasPython)("counts pages that several processes share once", async () => {
    const files = await createSandbox({
      jail: "bubblewrap",
      commands: { memoryBytes: 300 * 2 ** 20 },
    });
    await files.write(
      "share.py",
      `import mmap, os, time\nm = mmap.mmap(-1, 100 << 20)\ntouch = lambda: [m.__setitem__(i, 1) for i in range(0, 100 << 20, 4096)]\ntouch()\nfor _ in range(5):\n  if os.fork() == 0:\n    touch(); time.sleep(3); os._exit(0)\nfor _ in range(5): os.wait()\nprint("shared")\n`,
    );
    const result = await files.shell.run("python3 share.py", { timeoutMs: 30_000 });
    expect(result).toMatchObject({ exitCode: 0, output: "shared\n" });
  });

  it.skipIf(!hasPython)("gives no memory that belongs to no process", async () => {
    const files = await createSandbox();
    const { output } = await files.shell.run(
      `python3 -c 'import os; os.memfd_create("x")' 2>&1 | tail -1; ipcmk -M 1000000 2>&1`,
    );
    expect(output).toMatch(/not implemented/);
    expect(output).toMatch(/not permitted/);
  });

  it.each([
    ["one large file", "head -c 200000000 /dev/zero > big; echo ended"],
    [
      "many files",
      "for i in $(seq 1 40); do head -c 5000000 /dev/zero > dir/f$i; done; echo ended",
    ],
    [
      "files without a name",
      "exec 3>x; rm x; head -c 200000000 /dev/zero >&3; sleep 5; echo ended",
    ],
  ])("is stopped when it writes too much: %s", async (_, script) => {
    const workspaceBytes = 20_000_000;
    const files = await createSandbox({ jail: "bubblewrap", commands: { workspaceBytes } });
    await files.write("kept.txt", "kept");
    const result = await files.shell.run(`mkdir dir; ${script}`);
    expect(result.stoppedBy).toBe("workspace");
    expect(result.exitCode).toBeUndefined();
    expect((await files.glob("**/*")).paths).toEqual(["kept.txt"]);
    expect((await files.list("")).entries.map(({ path }) => path)).toEqual(["kept.txt"]);
    expect(await files.shell.run("echo next")).toMatchObject({ exitCode: 0, output: "next\n" });
  });

  it("is stopped in the layer of a user, and what a file tool writes meanwhile stays", async () => {
    const files = await createSandbox({
      jail: "bubblewrap",
      commands: { workspaceBytes: 20_000_000 },
    });
    await files.write("common.txt", "common");
    const own = files.within({ scope: "user", id: "ann" });
    const running = own.shell?.run("echo started; sleep 1; head -c 200000000 /dev/zero > big", {
      onOutput: () => void own.write("tool.txt", "tool"),
    });
    expect((await running)?.stoppedBy).toBe("workspace");
    expect((await own.glob("**/*")).paths).toEqual(["common.txt", "tool.txt"]);
  });

  it.skipIf(!hasPython)("leaves no program behind that runs as another user or group", async () => {
    const files = await createSandbox();
    const script = `cp /bin/sh a; chmod u+s a; cp /bin/sh b; chmod 2755 b
      python3 -c 'import os; os.open("c", os.O_CREAT, 0o4755); os.mknod("d", 0o106755)'
      install -m 6755 /bin/sh e; tar --mode=4755 -cf t.tar a; rm a; tar -xpf t.tar; ls`;
    const { output } = await files.shell.run(script);
    expect(output).toContain("t.tar");
    const modes = await files.shell.run("find . -perm /6000");
    expect(modes).toMatchObject({ exitCode: 0, output: "" });
  });
});

describe("a command in just-bash", () => {
  it.each([
    ["endless loop", "while true; do :; done"],
    ["endless pipe", "yes | cat"],
    ["long sleep", "sleep 60"],
  ])("%s ends when its time is over or a limit is reached", async (name, script) => {
    const files = await createSandbox({ jail: "just-bash" });
    await withDelay(name, () => files.shell.run(script, { timeoutMs: 2_000 }));
    expect(await files.shell.run("echo next")).toMatchObject({ exitCode: 0, output: "next\n" });
  });

  it("is cancelled", async () => {
    const files = await createSandbox({ jail: "just-bash" });
    const signal = AbortSignal.timeout(300);
    expect(await files.shell.run("sleep 60", { signal })).toMatchObject({ stoppedBy: "cancel" });
  });

  it("is stopped when it writes too much, and leaves none of its files", async () => {
    const files = await createSandbox({ jail: "just-bash", commands: { workspaceBytes: 1_000 } });
    await files.write("kept.txt", "kept");
    const script = "echo small > a; for i in 1 2 3 4 5 6; do echo $i; seq 1 60 >> dir/b; done";
    const result = await files.shell.run(`mkdir -p dir; ${script}`);
    expect(result.stoppedBy).toBe("workspace");
    expect((await files.glob("**/*")).paths).toEqual(["kept.txt"]);
  });

  it("ends a command that uses too much memory", async () => {
    const files = await createSandbox({
      jail: "just-bash",
      commands: { memoryBytes: 64 * 2 ** 20 },
    });
    const script = "x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done";
    const { exitCode, stoppedBy } = await files.shell.run(script, { timeoutMs: 20_000 });
    expect(stoppedBy ?? exitCode).not.toBe(0);
  });
});
