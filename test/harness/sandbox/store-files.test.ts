import { fork } from "node:child_process";
import { once } from "node:events";
import { chmodSync, lstatSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { RivuletError } from "../../../src/base/error.ts";
import type { Filesystem, FilesystemOptions } from "../../../src/harness/filesystem/filesystem.ts";
import { storeFilesystem } from "../../../src/harness/filesystem/store.ts";
import type { JailKind, SandboxOptions } from "../../../src/harness/sandbox/jail.ts";
import { HarnessAgent, memoryStore, type Store, sqliteStore } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { toolTexts } from "../agent/support/agent.ts";
import { createStoreSandbox, hasBubblewrap } from "./support/sandbox.ts";

const jails: readonly JailKind[] = [
  ...(hasBubblewrap ? (["bubblewrap"] as const) : []),
  "unsafe",
  "just-bash",
];
const native = jails.filter((jail) => jail !== "just-bash");
const strong = native[0] ?? "unsafe";
const ann = { scope: "user", id: "ann" } as const;

const run = async (files: Filesystem, script: string, onOutput?: (text: string) => void) => {
  const result = await files.shell?.run(script, { ...(onOutput && { onOutput }) });
  return result?.output ?? "no shell";
};
const text = async (files: Filesystem, path: string) =>
  Buffer.from((await files.read(path)).data).toString();

/** All files of a store with their bytes. */
async function everythingIn(store: Pick<Store, "files">): Promise<Record<string, string>> {
  const paths = (await store.files.list("")).map(({ path }) => path);
  const data = paths.map(async (path) => [path, (await store.files.get(path))?.data]);
  return Object.fromEntries(await Promise.all(data));
}

function createFiles(jail: JailKind, more: FilesystemOptions & { sandbox?: SandboxOptions } = {}) {
  const store = memoryStore();
  const sandbox = { jail, onWarning: () => {}, ...more.sandbox };
  return { store, files: storeFilesystem(store, { ...more, sandbox }) };
}

describe.each(jails)("commands on files of a store, in %s", (jail) => {
  it("do not overwrite what somebody else has changed meanwhile", async () => {
    const { store, files } = createFiles(jail);
    for (const name of ["changed", "removed", "gone", "mine"]) await files.write(name, "old\n");
    // The memory store has written when `put` returns, and the command waits for nothing.
    const script =
      "echo ready; for f in changed gone mine new; do echo mine > $f; done; rm removed";
    const output = await run(files, script, () => {
      for (const name of ["changed", "removed", "new"])
        void store.files.put(`workspace/${name}`, Buffer.from("theirs\n"));
      void store.files.delete("workspace/gone");
    });
    for (const name of ["changed", "removed", "new"])
      expect(await text(files, name), name).toBe("theirs\n");
    expect(await files.stat("gone")).toBeUndefined();
    expect(await text(files, "mine")).toBe("mine\n");
    const why = "was not kept, because somebody else changed it while the command ran.";
    const notes = ["changed", "gone", "new", "removed"].map((it) => `The change of ${it} ${why}\n`);
    expect(output).toBe(`ready\n${notes.join("")}`);
    expect(await run(files, "cat changed removed new mine")).toBe("theirs\ntheirs\ntheirs\nmine\n");
  });

  it("do not overwrite a common file that was changed meanwhile", async () => {
    const { store, files } = createFiles(jail);
    await files.write("common", "old\n");
    const own = files.within(ann);
    const output = await run(own, "echo ready; echo mine > common", () => {
      void store.files.put("workspace/common", Buffer.from("theirs\n"));
    });
    expect(output).toContain("The change of common was not kept");
    expect(await text(own, "common")).toBe("theirs\n");
  });

  it("see what another process has changed since the last command", async () => {
    const { store, files } = createFiles(jail);
    const other = createStoreSandbox(jail, store);
    await run(files, "mkdir d; for n in a b c; do echo 1 > d/$n; done");
    expect(await run(other, "cat d/*; echo 2 > d/a; rm d/b; echo 1 > e")).toBe("1\n1\n1\n");
    expect(await run(files, "cat d/* e; rm -r d; echo 3 > d")).toBe("2\n1\n1\n");
    expect(await run(other, "cat d; rm d; mkdir d; echo 4 > d/f")).toBe("3\n");
    expect(await run(files, "cat d/f")).toBe("4\n");
  });

  it("read only the files that have changed since the last command", async () => {
    const store = memoryStore();
    let reads = 0;
    const { files } = store;
    const get = (path: string) => {
      reads += 1;
      return files.get(path);
    };
    const counted = { files: { ...files, get } };
    const own = createStoreSandbox(jail, counted).within(ann);
    for (let index = 0; index < 20; index++) await store.files.put(`workspace/f${index}`, bytes);
    await run(own, "true");
    expect(reads).toBe(20);
    await store.files.put("workspace/f3", Buffer.from("new"));
    reads = 0;
    expect(await run(own, "cat f3")).toBe("new");
    expect(reads).toBe(1);
  });
});

const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

describe.each(native)("commands on files of a store, in %s", (jail) => {
  it("keep the files of a command that is cancelled or runs out of time", async () => {
    const { files } = createFiles(jail);
    const cancel = new AbortController();
    const { stoppedBy } =
      (await files.shell?.run("echo 1 > a; echo ready; sleep 60", {
        signal: cancel.signal,
        onOutput: () => cancel.abort(new Error("cancelled")),
      })) ?? {};
    expect(stoppedBy).toBe("cancel");
    const late = await files.shell?.run("echo 2 > b; sleep 60", { timeoutMs: 1_000 });
    expect(late?.stoppedBy).toBe("timeout");
    expect(await run(files, "cat a b")).toBe("1\n2\n");
  });

  it("leave the store as it was when another process continues their task", async () => {
    const { store, files } = createFiles(jail);
    await files.write("a", "old\n");
    const before = await everythingIn(store);
    const lost = new AbortController();
    const result = await files.shell?.run("echo new > a; echo new > b; echo ready; sleep 60", {
      signal: lost.signal,
      onOutput: () => lost.abort(new RivuletError("fenced", "Lost.")),
    });
    expect(result?.stoppedBy).toBe("cancel");
    expect(await everythingIn(store)).toEqual(before);
  });

  it("keep bytes, names with spaces, empty files and the right to run a program", async () => {
    const { files } = createFiles(jail);
    await files.write("in/a b.bin", bytes);
    await files.write("run.sh", "#!/bin/sh\necho runs\n");
    expect(await run(files, 'cp "in/a b.bin" copy; : > empty; ./run.sh')).toBe("runs\n");
    expect(Buffer.from((await files.read("copy")).data)).toEqual(bytes);
    expect((await files.read("empty")).data.byteLength).toBe(0);
  });

  it("do not keep links, special files, and what file tools cannot write", async () => {
    const { store, files } = createFiles(jail, { limits: { fileBytes: 1_000 } });
    await files.write("a", "old\n");
    const before = await everythingIn(store);
    const script = `ln -s a link; ln -s / root; mkfifo pipe; mkdir -p sub/.git; echo x > sub/.git/config
      echo x > 'a:b'; echo x > .wh.a; head -c 1001 /dev/zero > large; printf x > "$(printf '\\377')"`;
    const output = await run(files, script);
    for (const path of ["link", "root", "pipe"])
      expect(output).toContain(`of ${path} was not kept, because links and special files`);
    expect(output).toContain("sub/.git/config was not kept, because it is read-only.");
    expect(output).toContain("a:b was not kept, because file tools cannot use its name.");
    expect(output).toContain(".wh.a was not kept");
    expect(output).toContain("large was not kept, because it has more than 1000 bytes.");
    expect(await everythingIn(store)).toEqual(before);
    expect(await run(files, "ls -A | grep -v -e '^[A-Zkst]' -e rivulet -e agents")).toBe("a\n");
  });

  it("say how many more files were not kept", async () => {
    const { files } = createFiles(jail);
    const output = await run(files, "for i in $(seq 100); do ln -s x l$i; done");
    expect(output.split("\n")).toHaveLength(22);
    expect(output).toMatch(/\n80 more were not kept\.\n$/);
  });

  it("keep files whose directory they have locked", async () => {
    const { files } = createFiles(jail);
    await files.write("d/a", "1\n");
    await files.write("d/e/b", "2\n");
    await run(files, "chmod 000 d/a d/e/b d/e d .");
    expect(await text(files, "d/a")).toBe("1\n");
    expect(await run(files, "cat d/a d/e/b")).toBe("1\n2\n");
  });

  it("fail and change nothing if the copy is removed meanwhile, and work with another one", async () => {
    const { store, files } = createFiles(jail);
    await files.write("a", "old\n");
    const before = await everythingIn(store);
    const known = new Set(copiesIn(tmpdir()));
    const removeCopies = () => {
      for (const name of copiesIn(tmpdir()).filter((name) => !known.has(name))) {
        const away = join(tmpdir(), `gone-${name}`);
        renameSync(join(tmpdir(), name), away);
        rmSync(away, { recursive: true });
      }
    };
    const script = "echo new > a; echo new > b; echo ready; sleep 1";
    await expect(run(files, script, removeCopies)).rejects.toMatchObject({
      code: "sandbox_failed",
    });
    expect(await everythingIn(store)).toEqual(before);
    expect(await run(files, "cat a")).toBe("old\n");
    removeCopies();
    expect(await run(files, "cat a")).toBe("old\n");
  });

  it("have no copy of a file that a rule denies, and cannot change it", async () => {
    const { files } = createFiles(jail);
    await files.write("secret", "old\n");
    expect(await run(files, "cat secret")).toBe("old\n");
    const hides = (path: string) => path === "secret";
    const { output } = (await files.shell?.run("cat secret; echo new >> secret", { hides })) ?? {};
    expect(output).not.toContain("old");
    if (jail === "unsafe")
      expect(output).toBe(
        "The change of secret was not kept, because a rule forbids to read it.\n",
      );
    expect(await run(files, "cat secret")).toBe("old\n");
  });
});

/** The copies of this process in a folder. */
function copiesIn(folder: string): readonly string[] {
  return readdirSync(folder).filter((name) => name.startsWith(`rivulet-command-${process.pid}-`));
}

describe.runIf(hasBubblewrap)("a command on files of a store that writes too much", () => {
  it("is stopped, and the store stays as it was", async () => {
    const { store, files } = createFiles("bubblewrap", {
      sandbox: { commands: { workspaceBytes: 1_000_000 } },
    });
    await files.write("a", "old\n");
    const before = await everythingIn(store);
    const result = await files.shell?.run("echo new > a; head -c 3000000 /dev/zero > large");
    expect(result?.stoppedBy).toBe("workspace");
    expect(await everythingIn(store)).toEqual(before);
  });
});

it("commands on files of a store work with thousands of files", async () => {
  const { store, files } = createFiles(strong);
  for (let index = 0; index < 2_000; index++)
    await store.files.put(`workspace/src/d${index % 50}/f${index}`, bytes);
  const own = files.within(ann);
  const timed = async (name: string, script: string) => {
    const start = performance.now();
    const output = await run(own, script);
    console.log(`2,000 files in ${strong}, ${name}: ${Math.round(performance.now() - start)} ms`);
    return output;
  };
  expect(await timed("copied", "find src -type f | wc -l")).toMatch(/^\s*2000\n$/);
  await timed("one changed", "echo x >> src/d1/f1");
  await timed("200 new", "mkdir new; for i in $(seq 200); do echo $i > new/$i; done");
  await timed("all removed", "rm -r src new");
  expect((await own.list("")).entries).toEqual([]);
  expect((await store.files.list("workspace/src")).length).toBe(2_000);
  expect((await store.files.list("workspace/.rivulet")).map(({ path }) => path)).toEqual([
    "workspace/.rivulet/namespaces/user-ann/.wh.src",
  ]);
});

it("a process that is killed before the files are written back leaves the store as it was", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-copies-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o777);
  const path = join(folder, "store.db");
  const store = sqliteStore(path);
  await store.files.put("workspace/secret", Buffer.from("of ann\n"));
  const start = (...args: readonly string[]) =>
    fork(join(import.meta.dirname, "support/store-command-process.ts"), [path, strong, ...args], {
      env: { ...process.env, TMPDIR: folder },
    });
  const left = () => readdirSync(folder).filter((name) => name.startsWith("rivulet-command"));
  const killed = start("echo new >> secret; echo new > other", "hang");
  await once(killed, "message");
  expect(left()).toHaveLength(1);
  const copy = join(folder, left()[0] ?? "", "files");
  expect(lstatSync(copy).mode & 0o777).toBe(0o700);
  killed.kill("SIGKILL");
  await once(killed, "exit");
  const found = await everythingIn(store);
  expect(Object.keys(found)).toEqual(["workspace/secret"]);
  expect(left()).toHaveLength(1);

  const next = start("cat secret; ls");
  const [output] = await once(next, "message");
  expect(output).toContain("of ann\n");
  expect(output).not.toContain("other");
  await once(next, "exit");
  expect(left()).toEqual([]);
  await store.close();
});

describe("an agent with its files in the store", () => {
  const command = (command: string) => [{ call: "execute", input: { command } }];
  const agentOn = (store: Store, turns: Parameters<typeof scriptedModel>[0], more: object = {}) => {
    const model = scriptedModel(turns);
    const filesystem = { store: true, sandbox: { jail: strong, onWarning: () => {} } };
    const agent = new HarnessAgent({ name: "lead", model, store, filesystem, ...more });
    return { agent, results: () => toolTexts(model.calls.at(-1)) };
  };

  it("runs commands, and another process goes on with its files", async () => {
    const store = memoryStore();
    const one = agentOn(store, [command("mkdir out; echo 1 > out/a; cd out"), "done"]);
    await one.agent.call("go", { sessionId: "s", userId: "ann" });
    const two = agentOn(store, [
      [
        { call: "read_file", input: { path: "/workspace/out/a" } },
        ...command("cat a; echo 2 >> a"),
      ],
      command("cat a"),
      "done",
    ]);
    await two.agent.call("go", { sessionId: "s", userId: "ann" });
    expect(two.results().slice(-3)).toEqual([
      "     1\t1",
      "exit_code: 0\ndirectory: /workspace/out\n\n1\n",
      "exit_code: 0\ndirectory: /workspace/out\n\n1\n2\n",
    ]);
    const bob = agentOn(store, [command("ls"), "done"]);
    await bob.agent.call("go", { sessionId: "b", userId: "bob" });
    expect(bob.results()[0]).not.toContain("out");
  });

  it("gives commands to a subagent that asks for them", async () => {
    const store = memoryStore();
    await store.files.put("workspace/a", Buffer.from("from the store\n"));
    const child = scriptedModel([command("cat a"), "done"]);
    const subagents = [
      {
        ...{ name: "helper", description: "Helps.", model: child },
        filesystem: { sandbox: { jail: strong, onWarning: () => {} } },
        workspaceMode: "shared" as const,
      },
    ];
    const { agent } = agentOn(
      store,
      [[{ call: "agent_spawn", input: { agent_id: "helper", task: "Go." } }], "done"],
      { filesystem: "store", subagents },
    );
    await agent.call("go", { sessionId: "s" });
    expect(toolTexts(child.calls.at(-1))[0]).toContain("from the store");
  });

  it("refuses a directory beside it, and a subagent that wants another store", () => {
    const files = { store: true, sandbox: { jail: strong, onWarning: () => {} } };
    const options = { name: "lead", model: scriptedModel([]), store: memoryStore() };
    expect(() => new HarnessAgent({ ...options, filesystem: files, workspace: "x" })).toThrow(
      "workspace and filesystem are both set",
    );
    const declaration = { name: "a", description: "b", filesystem: files };
    expect(() => new HarnessAgent({ ...options, subagents: [declaration] })).toThrow("store");
  });
});
