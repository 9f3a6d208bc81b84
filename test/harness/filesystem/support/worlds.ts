import { execFileSync } from "node:child_process";
import { mkdir, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Filesystem } from "../../../../src/harness/filesystem/filesystem.ts";
import { localFilesystem } from "../../../../src/harness/filesystem/local.ts";
import { storeFilesystem } from "../../../../src/harness/filesystem/store.ts";
import { memoryStore } from "../../../../src/store/index.ts";
import type { Targets } from "./attacks.ts";
import { snapshot } from "./snapshot.ts";

/** A filesystem with the targets of an attacker around it. */
export interface World {
  readonly filesystem: Filesystem;
  readonly targets: Targets;
  /** Returns the current state of everything that the caller must not change. */
  protectedFrom(userId: string | undefined): Promise<Readonly<Record<string, string>>>;
  /** Removes the caller's files and restores the hostile ones. */
  reset(): Promise<void>;
}

/** The content of every file that the caller must not read. */
export const secret = "S3cr3t";
/** An unguessable name beside every such file. */
export const unguessable = "unguessable-7f3a";

const others = {
  "canary.txt": `${secret} outside\n`,
  [unguessable]: "",
  "root-evil/canary.txt": `${secret} beside\n`,
};
const ofBob = { "victim.txt": `${secret} of bob\n`, [unguessable]: "" };
const workspace = {
  "notes.md": "plain\n",
  "notes/plan.md": "plain\n",
  "AGENTS.md": "persona\n",
  "knowledge/KNOWLEDGE.md": "known\n",
  "skills/x/SKILL.md": "skill\n",
  "subagents/helper.md": "helper\n",
  "tools.json": "{}\n",
  "agents/child/workspace/a.md": "of the child\n",
  ".git/config": "[core]\n",
};
const bob = ".rivulet/namespaces/user-bob";
const ann = ".rivulet/namespaces/user-ann";
const steering =
  /^(?:AGENTS\.md|knowledge|skills|subagents|tools\.json|agents|\.git|\.rivulet)(?:\/|$)/i;

function isOwn(path: string, userId: string | undefined): boolean {
  if (userId !== undefined) return path === ann || path.startsWith(`${ann}/`);
  return !steering.test(path) || path === ann || path.startsWith(`${ann}/`);
}

/** A local directory with links and special files in every writable place. */
export async function localWorld(outer: string): Promise<World> {
  const root = join(outer, "root");
  const put = async (directory: string, texts: Readonly<Record<string, string>>) => {
    for (const [path, text] of Object.entries(texts)) {
      await mkdir(dirname(join(directory, path)), { recursive: true });
      await writeFile(join(directory, path), text);
    }
  };
  async function reset(): Promise<void> {
    for (const name of await readdir(root)) {
      if (!steering.test(name)) await rm(join(root, name), { recursive: true });
    }
    await rm(join(root, ann), { recursive: true, force: true });
    await put(root, workspace);
    for (const directory of [root, join(root, "notes"), join(root, ann)]) {
      await mkdir(directory, { recursive: true });
      await symlink("..", join(directory, "link-up"));
      await symlink(outer, join(directory, "link-out"));
      await symlink("link-out", join(directory, "link-chain"));
      await symlink("link-loop", join(directory, "link-loop"));
      await symlink(join(outer, "canary.txt"), join(directory, "link-file"));
      await symlink(join(outer, "dangling"), join(directory, "link-dangling"));
      await symlink(join(root, bob), join(directory, "link-bob"));
      await symlink("/dev/zero", join(directory, "link-zero"));
      if (process.platform !== "win32") execFileSync("mkfifo", [join(directory, "pipe")]);
    }
  }
  await put(outer, others);
  await put(join(root, bob), ofBob);
  await put(root, { ".rivulet/files.lock": "" }); // every write makes use of it
  await reset();
  return {
    filesystem: localFilesystem(root),
    targets: { root, canary: "canary.txt", victim: "victim.txt" },
    protectedFrom: (userId) =>
      snapshot(outer, (path) => path.startsWith("root/") && isOwn(path.slice(5), userId)),
    reset,
  };
}

/** A store with other files besides those of the workspace. */
export async function storeWorld(): Promise<World> {
  const { files } = memoryStore();
  const bytes = (text: string) => new TextEncoder().encode(text);
  const put = async (prefix: string, texts: Readonly<Record<string, string>>) => {
    for (const [path, text] of Object.entries(texts)) {
      await files.put(`${prefix}${path}`, bytes(text));
    }
  };
  async function reset(): Promise<void> {
    for (const { path } of await files.list("workspace/")) {
      if (!path.startsWith(`workspace/${bob}/`)) await files.delete(path);
    }
    await put("workspace/", workspace);
  }
  await put("", others);
  await put("workspace-evil/", others);
  await put(`workspace/${bob}/`, ofBob);
  await reset();
  return {
    filesystem: storeFilesystem({ files }),
    targets: { root: "/workspace", canary: "canary.txt", victim: "victim.txt" },
    async protectedFrom(userId) {
      const found: Record<string, string> = {};
      for (const { path } of await files.list("")) {
        if (path.startsWith("workspace/") && isOwn(path.slice(10), userId)) continue;
        found[path] = new TextDecoder().decode((await files.get(path))?.data);
      }
      return found;
    },
    reset,
  };
}
