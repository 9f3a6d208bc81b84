import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { RivuletError } from "../base/error.ts";
import type { Arguments } from "./arguments.ts";
import type { Console } from "./console.ts";
import { packageRoot, packageVersion } from "./package-root.ts";

/** `rivulet init`: writes a small project that runs and whose test passes. */
export async function initProject({ operands }: Arguments, console: Console): Promise<number> {
  const [folder = "."] = operands;
  const root = resolve(folder);
  const files = projectFiles(basename(root));
  const written: string[] = [];
  for (const [path, text] of Object.entries(files)) {
    if (!existsSync(join(root, path))) {
      writeNew(join(root, path), text);
      written.push(path);
    }
  }
  const kept = Object.keys(files).filter((path) => !written.includes(path));
  for (const path of written) console.print(`created   ${join(folder, path)}`);
  for (const path of kept) console.print(`kept      ${join(folder, path)}, which exists already`);
  const enter = folder === "." ? "" : `cd ${folder} && `;
  console.print(`
Next
  ${enter}npm install
  npm test                 the team with a scripted model: no API key, no network
  npm run check            types
  npx rivulet              talk to your team; it uses the offline model until you set RIVULET_MODEL
  npx rivulet serve        the same in the browser, with an HTTP API`);
  if (!existsSync(join(packageRoot, "dist")))
    console.print(
      `\nRivulet runs from its sources. Build it first: cd ${packageRoot} && npm run build`,
    );
  const missing = kept.includes("package.json") ? missingIn(join(root, "package.json")) : [];
  if (missing.length > 0)
    console.print(`\nYour package.json was kept. Complete it first:\n  ${missing.join("\n  ")}`);
  return 0;
}

/** The commands that add to a project's package.json what the files of a new project need. */
function missingIn(path: string): readonly string[] {
  const manifest = readManifest(path);
  const own = manifestOf("");
  const installed = { ...manifest.devDependencies, ...manifest.dependencies };
  const packages = (wanted: Readonly<Record<string, string>>) =>
    Object.entries(wanted)
      .filter(([name]) => !Object.hasOwn(installed, name))
      .map(([name, range]) => (range.startsWith("file:") ? range.slice(5) : name));
  const [needed, development] = [packages(own.dependencies), packages(own.devDependencies)];
  return [
    ...(manifest.type === "module" ? [] : ["npm pkg set type=module"]),
    ...(needed.length > 0 ? [`npm install ${needed.join(" ")}`] : []),
    ...(development.length > 0 ? [`npm install --save-dev ${development.join(" ")}`] : []),
    ...Object.entries(own.scripts)
      .filter(([name]) => !Object.hasOwn(manifest.scripts ?? {}, name))
      .map(([name, command]) => `npm pkg set scripts.${name}="${command}"`),
  ];
}

interface Manifest {
  readonly type?: string;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

function readManifest(path: string): Manifest {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Manifest;
  } catch (cause) {
    throw new RivuletError("invalid_folder", `${path} is not JSON.`, {
      hint: "Correct it, or pass another folder: rivulet init <folder>.",
      cause,
    });
  }
}

function writeNew(path: string, text: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text, { flag: "wx" });
  } catch (cause) {
    const { code = "", message } = cause as NodeJS.ErrnoException;
    const reason = reasons[code] ?? message;
    throw new RivuletError("invalid_folder", `${path} cannot be written: ${reason}.`, {
      hint: "Pass a folder that you may write to: rivulet init <folder>.",
      cause,
    });
  }
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "the disk is read-only",
  ENOSPC: "the disk is full",
  ENOTDIR: "a part of its path is a file",
  EEXIST: "a part of its path is a file",
};

/** The files of a new project by path. */
function projectFiles(name: string): Readonly<Record<string, string>> {
  const template = join(packageRoot, "sample", "project");
  const paths = readdirSync(template, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(template, join(entry.parentPath, entry.name)))
    .toSorted();
  const copied = paths.map((path) => [
    // npm leaves files with the name .gitignore out of packages.
    path === "gitignore" ? ".gitignore" : path,
    readFileSync(join(template, path), "utf8"),
  ]);
  const manifest = `${JSON.stringify(manifestOf(name), null, 2)}\n`;
  return { "package.json": manifest, ...Object.fromEntries(copied) };
}

function manifestOf(folder: string) {
  const name = folder
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "");
  const version = packageVersion();
  return {
    name: name === "" ? "agents" : name,
    private: true,
    type: "module",
    engines: { node: ">=22.18" },
    scripts: { start: "rivulet", serve: "rivulet serve", test: "node --test", check: "tsc" },
    // An unpublished version is only in its own folder.
    dependencies: {
      rivulet: version === "0.0.0" ? `file:${packageRoot}` : `^${version}`,
      zod: "^4.0.0",
    },
    devDependencies: { "@types/node": "^24.0.0", typescript: "^5.9.0" },
  } as const;
}
