import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type SandboxFilesystem,
  sandboxFilesystem,
} from "../../../src/harness/filesystem/sandbox.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { type Attempt, attemptsOn, type Outside } from "./support/attempts.ts";
import { hasBubblewrap } from "./support/sandbox.ts";

const canary = "canary-4f8d2c";
const controls = { "AGENTS.md": "Be kind.", "tools.json": "{}", "skills/a/SKILL.md": "a" };

/** The world around a jail: everything in it is reachable for this process, and must not be for the jail. */
async function createWorld() {
  const directory = await mkdtemp(join(tmpdir(), "rivulet-outside-"));
  await chmod(directory, 0o777);
  const file = join(directory, "canary.txt");
  await writeFile(file, canary);
  await chmod(file, 0o666);
  const root = join(directory, "root");
  const put = async (path: string, text: string) => {
    await mkdir(join(root, path, ".."), { recursive: true });
    await writeFile(join(root, path), text);
  };
  for (const [path, text] of Object.entries(controls)) await put(path, text);
  await put(".git/config", "[core]");
  await put("defs/reviewer/AGENTS.md", "Review.");
  await put(".rivulet/namespaces/user-bob/secret.txt", canary);
  let connections = 0;
  const listen = async (where: { port: number; host: string } | string) => {
    const server = createServer((socket) => {
      connections++;
      socket.on("error", () => {});
      socket.end(canary);
    });
    await new Promise<void>((resolve) => server.listen(where as string, resolve));
    return server;
  };
  const socket = join(directory, "host.sock");
  const abstractSocket = `\0rivulet-${process.pid}`;
  const tcp = await listen({ port: 0, host: "127.0.0.1" });
  const servers: Server[] = [tcp, await listen(socket), await listen(abstractSocket)];
  await chmod(socket, 0o777);
  process.env.RIVULET_CANARY = canary;
  const outside: Outside = {
    file,
    directory,
    pid: process.pid,
    port: (tcp.address() as { port: number }).port,
    socket,
    abstractSocket,
    otherUser: "/workspace/.rivulet/namespaces/user-bob/secret.txt",
    arch: process.arch,
  };
  /** Returns what differs from the beginning. */
  const damage = async (): Promise<readonly string[]> => {
    const problems: string[] = [];
    if ((await readFile(file, "utf8")) !== canary) problems.push("the file was changed");
    const entries = (await readdir(directory)).sort();
    if (entries.join() !== "canary.txt,host.sock,root") problems.push(`entries: ${entries}`);
    if (connections > 0) problems.push(`${connections} connections arrived`);
    for (const [path, text] of Object.entries(controls)) {
      if (readFileSync(join(root, path), "utf8") !== text) problems.push(`${path} was changed`);
    }
    if (readFileSync(join(root, ".git/config"), "utf8") !== "[core]") problems.push("git config");
    if (existsSync(join(root, ".git/hooks"))) problems.push("git hooks");
    if (readFileSync(join(root, "defs/reviewer/AGENTS.md"), "utf8") !== "Review.")
      problems.push("the instructions of a subagent were changed");
    const users = await readdir(join(root, ".rivulet/namespaces"));
    const known = users.filter((name) => name !== "user-bob" && name !== "user-ann");
    if (known.length > 0) problems.push(`namespaces: ${known}`);
    for (const name of ["subagents", "knowledge", "agents"]) {
      if (existsSync(join(root, name))) problems.push(`${name} was left`);
    }
    return problems;
  };
  const close = async () => {
    delete process.env.RIVULET_CANARY;
    for (const server of servers) server.close();
    await rm(directory, { recursive: true, force: true });
  };
  return { root, outside, damage, close };
}

type World = Awaited<ReturnType<typeof createWorld>>;
const placeholders: Outside = {
  ...{ file: "FILE", directory: "DIRECTORY", pid: 0, port: 0, socket: "SOCKET" },
  ...{ abstractSocket: "\0ABSTRACT", otherUser: "OTHER", arch: process.arch },
};
const names = attemptsOn(placeholders).map(([name], index) => [index, name] as const);
/** Where a part is enough in the ordinary run: some, and all on the workspace, which are the last. */
const part = names.filter(([index]) => isDeep || index % 16 === 0 || index > names.length - 40);

function attempts(jail: "bubblewrap" | "just-bash", userId: string | undefined, rows = part) {
  let world: World;
  let files: SandboxFilesystem;
  let view: Pick<SandboxFilesystem, "shell">;
  beforeAll(async () => {
    world = await createWorld();
    files = sandboxFilesystem(world.root, { jail });
    files.below("defs/reviewer"); // as for a subagent that is defined there
    const own = userId === undefined ? files : files.within({ scope: "user", id: userId });
    view = own as SandboxFilesystem;
  });
  afterAll(() => world.close());

  it("can run programs at all", async () => {
    const script = jail === "bubblewrap" ? "perl -e 'print 6 * 7'" : "echo $((6 * 7))";
    expect((await view.shell.run(script)).output.trim()).toBe("42");
  });

  it.each(rows)("%i: fails to %s", async (index) => {
    const [, script] = attemptsOn(world.outside)[index] as Attempt;
    const { output } = await view.shell.run(script, { timeoutMs: 20_000 });
    // just-bash has files of its own outside the workspace, in memory, which may be written.
    if (jail === "bubblewrap") expect(output).not.toContain("ESCAPED");
    expect(output).not.toContain(canary);
    expect(await world.damage()).toEqual([]);
  });

  it("leaves nothing for the file tools to follow or to wait for", async () => {
    const all = view as SandboxFilesystem;
    for (const path of ["link-to-file", "link-to-root/etc/passwd", "pipe", "sock"]) {
      await expect(all.read(path)).rejects.toMatchObject({ name: "RivuletError" });
    }
    const { matches } = await all.grep({ pattern: canary });
    expect(matches).toEqual([]);
    expect(Buffer.from((await all.read("AGENTS.md")).data).toString()).toBe("Be kind.");
  });
}

describe.runIf(hasBubblewrap)("escape attempts in bubblewrap, in place", () => {
  attempts("bubblewrap", undefined, names);
});

describe.runIf(hasBubblewrap)("escape attempts in bubblewrap, as a user with a layer", () => {
  attempts("bubblewrap", "ann");
});

describe("escape attempts in just-bash", () => {
  attempts("just-bash", undefined);
});

it("has more than 120 attempts", () => {
  console.log(`escape attempts: ${names.length}`);
  expect(names.length).toBeGreaterThan(120);
});
