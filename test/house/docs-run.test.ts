import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { documents } from "../../scripts/repository-files.ts";
import { codeBlocks, type DocsBlock } from "./docs-code.ts";

// Inside the repository, so that the programs find their packages.
mkdirSync(".rivulet", { recursive: true });
const directory = mkdtempSync(resolve(".rivulet/docs-"));
const provider = resolve("test/support/docs-provider.ts");
const mcpServer = resolve("test/support/mcp-server.ts");
let wiki: ReturnType<typeof spawn>;
let wikiUrl = "";

beforeAll(async () => {
  for (const command of ["my-mcp-server", "clock-mcp-server"]) {
    const path = join(directory, command);
    writeFileSync(path, `#!/bin/sh\nexec "${process.execPath}" "${mcpServer}" stdio\n`);
    chmodSync(path, 0o755);
  }
  const npx = join(directory, "npx");
  const program = resolve("src/cli/main.ts");
  writeFileSync(npx, `#!/bin/sh\nshift\nexec "${process.execPath}" "${program}" "$@"\n`);
  chmodSync(npx, 0o755);
  wiki = spawn(process.execPath, [mcpServer, "http"], { stdio: ["ignore", "pipe", "ignore"] });
  if (wiki.stdout) wikiUrl = String(await once(wiki.stdout, "data")).trim();
});
afterAll(() => {
  wiki.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});

const approvingAgent = `new HarnessAgent({
  name: "host", store: "memory", filesystem: false,
  tools: [tool({ name: "order", description: "Orders.", needsApproval: true, execute: () => "Ordered." })],
  model: scriptedModel([{ call: "order" }, "Done."]),
})`;
const waiting = `const agent = ${approvingAgent}; await agent.call("Go.", { sessionId: "tonight" });`;
const plainAgent = `new HarnessAgent({ name: "lead", store: "memory", filesystem: false, model: "openai:gpt-5-mini" })`;
const noTool = 'tool({ name: NAME, description: "Does nothing.", execute: () => "" })';

/** The values that a block uses and readers do not see, by the declared name. */
const values: Readonly<Record<string, string>> = {
  agent: `const agent = ${plainAgent};
    for (const sessionId of ["books", "ann-1"]) await agent.call("Hi.", { sessionId });`,
  assistant: `const assistant = ${plainAgent};`,
  critic: `const critic = ${plainAgent};`,
  lead: `const lead = ${plainAgent};`,
  host: `const host = ${approvingAgent};`,
  run: `const run = ${plainAgent}.run("Go.");`,
  taskId: `const { taskId } = await agent.attach({ sessionId: "books" }).task;`,
  tree: `let tree = (await import("rivulet/protocol")).emptyTree();`,
  Invoice: `const Invoice = z.object({ number: z.string(), total: z.number() });`,
  ask: `const ask = () => true;`,
  client: `const client = new (await import("@ag-ui/client")).HttpAgent({ url: "http://localhost:1" });`,
  secret: `const secret = "0123456789abcdef";`,
  fileTools: `const fileTools = [];`,
  search: `const search = ${noTool.replace("NAME", '"search"')};
    const drawChart = ${noTool.replace("NAME", '"chart"')};
    const drawTable = ${noTool.replace("NAME", '"table"')};`,
};
/** A server behind `fetch`, so that a block reaches it without a port. */
const servedAgent = `const served = (await import("rivulet/server")).createApp({
    agents: [${plainAgent}], token: "0123456789abcdef", log: false });
  const realFetch = globalThis.fetch;
  globalThis.fetch = (url, init) => String(url).startsWith("http://localhost:8080")
    ? served.fetch(new Request(url, { ...init, headers: { ...init?.headers, authorization: "Bearer 0123456789abcdef" } }))
    : realFetch(url, init);`;
/** Follows a run with the store of a framework until it has shown the end. */
const followed = (create: string, read: string) => `
  const scope = (await import("vue")).effectScope();
  const run = ${plainAgent}.run("Go.");
  const shown = ${create};
  shown.subscribe?.(() => {}); // a component that shows it
  while (${read}.connection.status !== "closed") await new Promise((resolve) => setTimeout(resolve, 5));
  if (${read}.tree.tasks[${read}.tree.rootId].status !== "completed") throw new Error("not shown");
  process.exit();`;
/** Code that a block needs besides, by a part of its code. */
const special: readonly (readonly [part: string, first: string, last?: string])[] = [
  ["await agent.approvals({ sessionId })", waiting],
  [
    'host.approvals({ sessionId: "party" })',
    `const host = ${approvingAgent}; await host.call("Go.", { sessionId: "party" });`,
  ],
  [
    'export("bills")',
    `await ${plainAgent.replace('"memory"', '"sqlite:rivulet.db"')}.call("Hi.", { sessionId: "bills" });`,
  ],
  [
    'exportConversations(from, ["bills"])',
    `await ${plainAgent.replace('"memory"', '"sqlite:old.db"')}.call("Hi.", { sessionId: "bills" });`,
  ],
  ["runner.start()", "", "process.kill(process.pid, 'SIGTERM');"],
  [
    "process.env.CI_TOKEN",
    `process.env.CI_TOKEN = "0123456789abcdef"; const lead = ${plainAgent}; const findUser = async () => undefined;`,
    "process.exit();",
  ],
  ["useRun(run", "", followed("scope.run(() => useRun(run))", "shown.value")],
  ["runStore(run", "", followed("runStore(run)", "(await import('svelte/store')).get(shown)")],
  ["connect(", servedAgent, "process.exit();"],
  ["serve({", "", "process.exit();"],
  ["createApp({", "", "process.exit();"],
];

function programOf({ context, code }: DocsBlock): string {
  const [, own, last = ""] = special.find(([part]) => code.includes(part)) ?? [];
  const declared = Array.from(`${context}\n${code}`.matchAll(/^declare .*$/gm), ([line]) => line);
  const names = declared.flatMap((line) =>
    Array.from(line.matchAll(/(?:(?:const|let|function) |, )(\w+)\b(?=[:(])/g), ([, name]) => name),
  );
  const first = own || names.map((name) => values[name ?? ""] ?? "").join("\n");
  const imports = Array.from(code.matchAll(/^import (?:type )?\{([^}]*)\}/gm), ([, list]) => list);
  const imported = new Set(imports.join(",").split(/[\s,]+/));
  const needed = (list: readonly string[], from: string) =>
    `import { ${list.filter((name) => !imported.has(name)).join(", ")} } from "${from}";`;
  return [
    needed(["HarnessAgent", "tool"], "rivulet"),
    needed(["scriptedModel"], "rivulet/testing"),
    needed(["z"], "zod"),
    first,
    code
      .replace(/^declare .*$/gm, "")
      // Blocks run side by side, so none can have the usual port.
      .replace("port: 8080", "port: 0")
      .replace(/\bserve\(\{/, "serve({ port: 0,")
      .replace(
        'url: "https://wiki.example/mcp"',
        `url: "${wikiUrl}", headers: { "x-token": "secret" }`,
      ),
    last,
  ].join("\n");
}

const blocks = documents()
  .filter(({ path }) => path === "README.md" || path.startsWith("docs/guide/"))
  .flatMap(({ path }) => codeBlocks(path, readFileSync(path, "utf8")))
  // A component needs a page: the browser tests run one.
  .filter(({ language }) => language === "ts");

it.concurrent.each(blocks)("$document, line $line, runs as a program and exits", async (block) => {
  const cwd = mkdtempSync(join(directory, "run-"));
  const flags = ["--import", provider, "--input-type=module-typescript", "--eval"];
  const child = spawn(process.execPath, [...flags, programOf(block)], {
    cwd,
    env: { ...process.env, PATH: `${directory}${delimiter}${process.env.PATH}` },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 100_000,
  });
  const [stderr, [status]] = await Promise.all([
    text(child.stderr),
    once(child, "close"),
    text(child.stdout),
  ]);
  expect(status, stderr).toBe(0);
});

it("the first program of the README runs as printed in the folder of `npm init -y`", async () => {
  const readme = readFileSync("README.md", "utf8");
  const [, file = ""] = /Save this as `([^`]+)`, and run it with `node \1`/.exec(readme) ?? [];
  const [first] = codeBlocks("README.md", readme);
  const cwd = mkdtempSync(join(directory, "fresh-"));
  const run = async (command: string, args: readonly string[]) => {
    const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    const [stdout, stderr, [status]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "close"),
    ]);
    expect(status, stderr).toBe(0);
    return stdout;
  };
  expect(readme).toContain("```sh\nnpm init -y\n");
  await run("npm", ["init", "-y"]);
  // Older releases of npm leave it out, which means the same.
  await run("npm", ["pkg", "set", "type=commonjs"]);
  writeFileSync(join(cwd, file), first?.code ?? "");
  expect(await run(process.execPath, ["--import", provider, file])).toContain("Ask me a question");
});
