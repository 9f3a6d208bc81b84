import { execFile } from "node:child_process";
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "tsdown";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeBlocks } from "./docs-code.ts";

const run = promisify(execFile);
const directory = mkdtempSync(join(tmpdir(), "rivulet-install-"));
const project = join(directory, "project");
let files: readonly string[] = [];

/** Whether the build of `npm run check` is newer than the sources, so that it need not be repeated. */
function isBuilt(): boolean {
  const changedAt = (pattern: string) =>
    Math.max(0, ...globSync(pattern).map((path) => statSync(path).mtimeMs));
  return changedAt("dist/index.js") > changedAt("{src/**/*.ts,package.json,tsdown.config.ts}");
}

beforeAll(async () => {
  const pack = ["pack", "--json", "--pack-destination", directory];
  const { stdout } = await run("npm", isBuilt() ? [...pack, "--ignore-scripts"] : pack);
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf("["))) as {
    filename: string;
    files: { path: string }[];
  }[];
  files = packed?.files.map(({ path }) => path) ?? [];
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{ "type": "module", "private": true }');
  const omit = ["dev", "optional", "peer"].map((kind) => `--omit=${kind}`);
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  const tarball = join(directory, packed?.filename ?? "");
  await run("npm", ["install", tarball, "zod", ...omit, ...quiet], { cwd: project });
  writeFileSync(join(project, "program.mjs"), program);
}, 10 * 60_000);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Uses each entry, files, SQLite, a subagent, and the two optional packages. */
const program = `
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { connectMcp, HarnessAgent, RivuletError, tool } from "rivulet";
import * as protocol from "rivulet/protocol";
import { taskEventSchema } from "rivulet/schema";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const { checkStream, emptyTree, materialize, reduce } = protocol;
process.on("warning", ({ message }) => /ripgrep/.test(message) && console.log(message));
const add = tool({
  name: "add",
  description: "Adds.",
  input: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
});
const agent = new HarnessAgent({
  name: "lead",
  workspace: "./workspace",
  store: "sqlite:./store.db",
  tools: [add],
  subagents: [{ name: "helper", description: "Helps." }],
  model: scriptedModel(({ tools, assistantCount }) => {
    if (!tools?.some(({ name }) => name === "agent_spawn")) return "Helped.";
    return [
      [{ call: "write_file", input: { path: "notes.md", content: "a river" } }],
      [{ call: "grep_files", input: { pattern: "riv.r" } }, { call: "grep_files", input: { pattern: "sea" } }],
      [{ call: "add", input: { a: 2, b: 2 } }, { call: "agent_spawn", input: { agent_id: "helper", task: "Help." } }],
      "Done.",
    ][assistantCount];
  }),
});
mkdirSync("workspace/many", { recursive: true });
for (let n = 0; n < 200; n++) writeFileSync("workspace/many/" + n + ".txt", "a stone");
const events = [];
const run = agent.run("Go.", { sessionId: "s" });
for await (const event of run) events.push(taskEventSchema.parse(event));
const tree = events.reduce(reduce, emptyTree());
const document = JSON.stringify(materialize(tree));
const { text } = await run.result();
console.log(text, checkStream(events).length, existsSync("store.db"));
console.log(/a river/.test(document), /Helped\\./.test(document));
const thrown = await new Promise((resolve) => resolve(scriptedModel(7))).catch((error) => error);
console.log(protocol.RivuletError === RivuletError, thrown instanceof RivuletError);
await connectMcp({ name: "x", command: "x" }).catch(({ code, hint }) => console.log(code, hint));
`;
const printed = `Searches in files are faster with ripgrep. Run \`npm i @vscode/ripgrep\`.
Done. 0 true
true true
true true
mcp_not_installed Run \`npm i @modelcontextprotocol/client\`.
`;

it("`npm pack` builds the package first", () => {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8"));
  expect(scripts.prepack).toMatch(/npm run build$/);
  expect(scripts.build).toMatch(/^tsdown\b/);
  expect(files).toContain("dist/cli/main.js");
  expect(files).toContain("dist/playground/index.html");
  expect(files).toContain("sample/project/rivulet.config.ts");
  expect(files).toContain("dist/index.js");
  expect(files).toContain("dist/index.d.ts");
  expect(
    files.filter(
      (path) =>
        !/^((conformance|dist|sample\/project|sample\/workspace\/(library|subagents))\/.*|sample\/workspace\/(AGENTS|synonyms)\.md|package\.json|README\.md|LICENSE)$/.test(
          path,
        ),
    ),
  ).toEqual([]);
});

it("without providers the package installs at most 15 packages and 15 MB", () => {
  const lock = JSON.parse(readFileSync(join(project, "node_modules/.package-lock.json"), "utf8"));
  const packages = Object.keys(lock.packages);
  const paths = globSync("node_modules/**", { cwd: project });
  const bytes = paths
    .map((path) => statSync(join(project, path)))
    .reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
  console.log(`installed: ${packages.length} packages, ${(bytes / 1e6).toFixed(1)} MB`);
  expect(packages.length).toBeLessThanOrEqual(15);
  expect(bytes).toBeLessThanOrEqual(15e6);
});

it("every source file is in one file of the package, so that its classes and maps exist once", () => {
  const region = /^\/\/#?(?:region)? ?(src\/\S+\.ts)$/gm;
  const chunks = files.filter((path) => path.endsWith(".js"));
  const sources = chunks.flatMap((path) =>
    Array.from(readFileSync(path, "utf8").matchAll(region), ([, source = ""]) => source),
  );
  expect(sources).toContain("src/base/error.ts");
  expect(sources.filter((source, index) => sources.indexOf(source) !== index)).toEqual([]);
});

/** Asks an agent over HTTP, then over each adapter, and prints the files that were loaded by then. */
const server = `
import { registerHooks } from "node:module";
const loaded = new Set();
registerHooks({ load: (url, context, next) => (loaded.add(url), next(url, context)) });
const { HarnessAgent } = await import("rivulet");
const { createApp } = await import("rivulet/server");
const { scriptedModel } = await import("rivulet/testing");
const model = scriptedModel(() => "Hello.");
const agent = new HarnessAgent({ name: "lead", store: "memory", filesystem: false, model });
const token = "0123456789abcdef";
const headers = { authorization: "Bearer " + token, "content-type": "application/json" };
const ask = async (adapters, path, body) => {
  const app = createApp({ agents: [agent], adapters, token, log: false });
  const answer = await app.request("http://localhost" + path, { method: "POST", headers, body: JSON.stringify(body) });
  console.log(path, answer.status, /Hello\\./.test(await answer.text()));
};
await ask([], "/v1/tasks", { agent: "lead", input: "Hi.", stream: true });
console.log(JSON.stringify([...loaded]));
const message = { id: "m", role: "user", content: "Hi.", parts: [{ type: "text", text: "Hi." }] };
await ask(["ai-sdk"], "/api/chat", { id: "c", messages: [message] });
await ask(["responses"], "/openai/v1/responses", { model: "lead", input: "Hi." });
await ask(["ag-ui"], "/agui/lead", { threadId: "t", runId: "r", messages: [message] });
await ask(["a2a"], "/a2a/lead", { jsonrpc: "2.0", id: 1, method: "SendMessage", params: {} });
process.exit();
`;

it("a server loads no adapter that it does not name; all but A2A need no other package", async () => {
  writeFileSync(join(project, "server.mjs"), server);
  const { stdout } = await run(process.execPath, ["server.mjs"], { cwd: project });
  const [native, list = "[]", ...others] = stdout.trim().split("\n");
  expect(native).toBe("/v1/tasks 200 true");
  expect(others).toEqual([
    "/api/chat 200 true",
    "/openai/v1/responses 200 true",
    "/agui/lead 200 true",
    "/a2a/lead 501 false",
  ]);
  const loaded: readonly string[] = JSON.parse(list);
  expect(loaded.some((url) => url.endsWith("/rivulet/dist/server.js"))).toBe(true);
  const adapter = /^\/\/#?(?:region)? ?(src\/adapters\/\S+\/(?:handler|events|editor)\.ts)$/gm;
  const sources = loaded
    .filter((url) => url.includes("/rivulet/dist/"))
    .flatMap((url) =>
      Array.from(readFileSync(new URL(url), "utf8").matchAll(adapter), ([, source]) => source),
    );
  expect(sources).toEqual([]);
  const acp = run(process.execPath, ["node_modules/rivulet/dist/cli/main.js", "acp"], {
    cwd: project,
  });
  await expect(acp).rejects.toMatchObject({
    stderr: expect.stringContaining("Run `npm i @agentclientprotocol/sdk`."),
    stdout: "",
  });
});

it("importing the package loads little: four files, no other package, no slow part of Node", async () => {
  const script = `
    import { registerHooks } from "node:module";
    const loaded = [];
    registerHooks({
      load(url, context, next) {
        const result = next(url, context);
        loaded.push([url, result.source?.length ?? 0]);
        return result;
      },
    });
    await import("rivulet");
    console.log(JSON.stringify(loaded));
  `;
  writeFileSync(join(project, "loaded.mjs"), script);
  const { stdout } = await run(resolve("node_modules/.bin/node"), ["loaded.mjs"], { cwd: project });
  const loaded: readonly (readonly [string, number])[] = JSON.parse(stdout);
  const parts = loaded.filter(([url]) => url.startsWith("file:"));
  const bytes = parts.reduce((sum, [, size]) => sum + size, 0);
  console.log(`imported: ${parts.length} files, ${(bytes / 1e3).toFixed(0)} kB`);
  expect(parts.filter(([url]) => !url.includes("/node_modules/rivulet/dist/"))).toEqual([]);
  expect(parts.length).toBeLessThanOrEqual(4);
  expect(bytes).toBeLessThanOrEqual(1_040e3);
  // Each of these takes longer than 1 ms; node:http takes 30.
  const slow = /^node:(crypto|dns|http|https|net|sqlite|tls|worker_threads|zlib)$/;
  expect(loaded.filter(([url]) => slow.test(url))).toEqual([]);
});

it("a server loads no package of another ecosystem, and an adapter names the one it needs", async () => {
  const script = `
    import { registerHooks } from "node:module";
    const asked = [];
    registerHooks({ resolve: (name, context, next) => (asked.push(name), next(name, context)) });
    const { memoryStore, ReActAgent } = await import("rivulet");
    const { serve } = await import("rivulet/server");
    const agents = [new ReActAgent({ name: "lead", store: memoryStore(), model: "demo:analyst" })];
    const server = await serve({ agents, port: 0, log: false });
    await server.close();
    const foreign = /^(@modelcontextprotocol|@a2a-js|@ag-ui|openai|ai)(\\/|$)/;
    console.log(asked.filter((name) => foreign.test(name)).length);
    for (const adapter of ["mcp", "a2a"])
      await serve({ agents, port: 0, adapters: [adapter] }).catch(({ code, hint }) => console.log(code, hint));
  `;
  writeFileSync(join(project, "adapters.mjs"), script);
  const options = { cwd: project };
  const { stdout } = await run(resolve("node_modules/.bin/node"), ["adapters.mjs"], options);
  expect(stdout.trim().split("\n")).toEqual([
    "0",
    "mcp_not_installed Run `npm i @modelcontextprotocol/server`.",
    "a2a_not_installed Run `npm i @a2a-js/sdk`.",
  ]);
});

it.each([
  ["a reader of the stream", "{ decodeSse, materialize, TaskTree }", 12.2],
  ["the whole protocol", "*", 34],
])("a browser that uses %s loads at most so many kB", async (_, names, limit) => {
  const entry = join(project, "browser.mjs");
  writeFileSync(entry, `export ${names} from "rivulet/protocol";`);
  const [built] = await build({
    ...{ config: false, cwd: project, entry: [entry], platform: "browser", format: "esm" },
    ...{ dts: false, clean: false, write: false, minify: true, logLevel: "silent" },
    deps: { alwaysBundle: /^rivulet/, onlyBundle: false },
  });
  const code = built?.chunks.map((chunk) => ("code" in chunk ? chunk.code : "")).join("") ?? "";
  const size = gzipSync(code).length / 1000;
  console.log(`${names} of the protocol: ${size.toFixed(1)} kB`);
  expect(code).not.toMatch(/from ?"rivulet/);
  expect(size).toBeLessThanOrEqual(limit);
});

it("`npx rivulet` runs from the package, and creates a project whose test passes", async () => {
  const path = `${resolve("node_modules/.bin")}:${process.env.PATH}`;
  const environment = { ...process.env, PATH: path };
  const npx = (args: readonly string[], cwd = project) =>
    run("npx", ["--no-install", "rivulet", ...args], { cwd, env: environment });
  expect((await npx(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect((await npx(["run", "--quiet", "Hello!"])).stdout).toContain("Ask me a question");
  const sample = await npx(["run", "--quiet", "What is a waterfall?"]);
  expect(sample.stdout).toContain("[^1]: library/waterfalls.md:3");
  expect(sample.stderr).not.toContain("ripgrep"); // the few articles of the sample need none
  expect((await npx(["init", "app"])).stdout).toContain("created   app/rivulet.config.ts");
  expect((await npx(["init", "app"])).stdout).toContain("kept      app/rivulet.config.ts");
  const app = join(project, "app");
  const { stdout } = await run("npm", ["test"], { cwd: app, env: environment });
  expect(stdout).toMatch(/pass 1\n[\s\S]*fail 0\n/);
  // The config imports the package by its name, and the program must be the same copy.
  const asked = await npx(["run", "--quiet", "Where do salmon return?"], app);
  expect(asked.stdout).toContain("[^1]: notes/rivers.md:3");
});

it("the types compile in a project that checks its libraries, and so does a new project", async () => {
  const { exports } = JSON.parse(readFileSync("package.json", "utf8"));
  // The types of rivulet/chat-transport are those of `ai`, which a project that uses it has.
  const entries = Object.keys(exports).filter((key) => !/json$|chat-transport$/.test(key));
  const imports = entries.map(
    (key, index) => `import * as e${index} from "rivulet${key.slice(1)}";`,
  );
  const used = `export const used = [${entries.map((_, index) => `e${index}`)}];`;
  const types = join(project, "types");
  mkdirSync(types);
  writeFileSync(join(types, "entries.ts"), `${imports.join("\n")}\n${used}\n`);
  const own = { compilerOptions: { strict: true, module: "nodenext", types: ["node"] } };
  writeFileSync(join(types, "tsconfig.json"), JSON.stringify(own));
  const tsc = resolve("node_modules/.bin/tsc");
  const flags = [
    "--noEmit",
    "--skipLibCheck",
    "false",
    "--typeRoots",
    resolve("node_modules/@types"),
  ];
  const compile = (folder: string) =>
    run(tsc, ["-p", folder, ...flags]).catch(({ stdout }) => ({ stdout }));
  expect((await compile(types)).stdout).toBe("");
  const app = join(project, "app");
  expect(readFileSync(join(app, "tsconfig.json"), "utf8")).toContain('"strict": true');
  expect((await compile(app)).stdout).toBe("");
});

it("a Node that is too old gets one line", async () => {
  const versions = "Object.defineProperty(process, 'versions', { value: { node: '20.20.2' } });";
  const old = ["--import", `data:text/javascript,${encodeURIComponent(versions)}`];
  const line = "Rivulet needs Node 22.18 or newer, and this is Node 20.20.2.";
  const options = { cwd: project };
  const failed = (args: readonly string[]) =>
    run(process.execPath, [...old, ...args], options).catch((error) => error);
  const program = await failed(["node_modules/rivulet/dist/cli/main.js", "--version"]);
  expect([program.code, program.stdout, program.stderr]).toEqual([1, "", `${line}\n`]);
  for (const entry of ["rivulet", "rivulet/server"]) {
    const { stderr } = await failed(["--input-type=module", "--eval", `import "${entry}";`]);
    expect(stderr).toContain(`\nError: ${line}\n`);
  }
});

it("the installed package passes its conformance kit with the adapter of the documentation", async () => {
  const page = "docs/protocol/conformance.md";
  const [adapter] = codeBlocks(page, readFileSync(page, "utf8"));
  writeFileSync(join(project, "adapter.ts"), adapter?.code ?? "");
  const kit = "node_modules/rivulet/conformance/run.js";
  const command = [kit, "--", process.execPath, "adapter.ts"];
  const { stdout } = await run(process.execPath, command, { cwd: project, maxBuffer: 1e8 });
  expect(stdout).toMatch(/\n(\d+) of \1 vectors pass \(tree, document, linter\)\.\n$/);
});

const mounted = `
  import { ReActAgent } from "rivulet";
  import { connect } from "rivulet/client";
  import { createApp, serve } from "rivulet/server";
  import { scriptedModel } from "rivulet/testing";

  const token = "a secret of sixteen".replaceAll(" ", "-");
  const model = scriptedModel([{ text: ["Hel", "lo."] }]);
  const options = { agents: [new ReActAgent({ name: "lead", model })], token, log: false };
  async function start() {
    if (globalThis.Bun) {
      const server = Bun.serve({ port: 0, fetch: createApp(options).fetch });
      return { url: "http://localhost:" + server.port, close: () => server.stop(true) };
    }
    if (globalThis.Deno) {
      const server = Deno.serve({ port: 0, onListen() {} }, createApp(options).fetch);
      return { url: "http://localhost:" + server.addr.port, close: () => server.shutdown() };
    }
    return serve({ ...options, port: 0 });
  }
  const server = await start();
  const run = connect(server.url, { token }).agent("lead").run("Hi.");
  for await (const event of run)
    if (event.type === "task.text.delta") console.log(event.type, event.delta);
  console.log((await run.result()).text);
  await server.close();
`;

describe.each([
  ["Node", "node_modules/.bin/node", []],
  ["Bun", "tools/runtimes/node_modules/.bin/bun", ["run"]],
  ["Deno", "tools/runtimes/node_modules/.bin/deno", ["run", "--allow-all"]],
])("the installed package on %s", (_, program, args) => {
  it("runs an agent with files, SQLite and a subagent, and the program ends", async () => {
    for (const path of ["workspace", "store.db"]) {
      rmSync(join(project, path), { recursive: true, force: true });
    }
    const executable = resolve(program);
    const options = { cwd: project, timeout: 100_000 };
    const { stdout } = await run(executable, [...args, "program.mjs"], options);
    expect(stdout).toBe(printed);
  });

  it("serves an agent with the runtime's own server, and a client follows it", async () => {
    writeFileSync(join(project, "mounted.mjs"), mounted);
    const executable = resolve(program);
    const options = { cwd: project, timeout: 100_000 };
    const { stdout } = await run(executable, [...args, "mounted.mjs"], options);
    expect(stdout).toBe("task.text.delta Hel\ntask.text.delta lo.\nHello.\n");
  });
});
