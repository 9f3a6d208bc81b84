// The mounts of docs/guide/serve.md as printed: a client of each calls an agent, follows it and gets a 404.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";

// Inside the repository, so that the programs find their packages.
mkdirSync(".rivulet", { recursive: true });
const directory = mkdtempSync(resolve(".rivulet/mounts-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const guide = readFileSync("docs/guide/serve.md", "utf8");
const blockWith = (part: string) =>
  Array.from(guide.matchAll(/```(?:ts|js)\n([\s\S]*?)```/g), ([, code = ""]) => code).find((code) =>
    code.includes(part),
  ) ?? "";

const agents = `
  import { HarnessAgent } from "rivulet";
  import { scriptedModel } from "rivulet/testing";
  export const secret = "a-secret-of-sixteen";
  const model = scriptedModel(() => ({ text: ["Mount", "ed."] }));
  export const lead = new HarnessAgent({ name: "lead", store: "memory", filesystem: false, model });
`;

const client = `
  import { connect } from "rivulet/client";
  import { secret } from "./agents.ts";
  export async function use(base, fetch) {
    const remote = connect(base + "/api", { token: secret, ...(fetch && { fetch }) });
    const reply = await remote.agent("lead").call("Hi.");
    const chunks = [];
    for await (const event of remote.agent("lead").run("Hi."))
      if (event.type === "task.text.delta") chunks.push(event.delta);
    const missing = await remote.sessions.read("none").catch(({ code }) => code);
    await remote.sessions.delete(reply.task.sessionId);
    console.log(reply.text, chunks.join("|"), missing);
    process.exit();
  }
`;

beforeAll(() => {
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  writeFileSync(join(directory, "agents.ts"), agents);
  writeFileSync(join(directory, "agents.js"), 'export * from "./agents.ts";');
  writeFileSync(join(directory, "client.ts"), client);
});

it.each([
  [
    "Hono",
    `import { lead, secret } from "./agents.ts";\n${blockWith("taskRunner({")}\nexport { app };`,
    `import { app } from "./program.ts";
     await use("http://localhost", async (url, init) => app.fetch(new Request(url, init)));`,
  ],
  [
    "Next",
    `import { lead, secret } from "./agents.ts";\n${blockWith("export const GET")}`,
    `import * as route from "./program.ts";
     await use("http://localhost:3000", async (url, init) => {
       const request = new Request(url, init);
       return route[request.method](request, { params: Promise.resolve({ path: ["v1"] }) });
     });`,
  ],
  [
    "Express",
    // The port of the guide may be in use.
    blockWith('from "express"').replace("app.listen(3000)", "export const server = app.listen(0)"),
    `import { once } from "node:events";
     import { server } from "./program.ts";
     await once(server, "listening");
     await use("http://127.0.0.1:" + server.address().port);`,
  ],
])("%s", async (name, program, main) => {
  expect(program).toContain("createApp({");
  const folder = join(directory, name);
  mkdirSync(folder);
  for (const file of ["agents.ts", "agents.js", "client.ts"])
    writeFileSync(join(folder, file), `export * from "../${file}";`);
  writeFileSync(join(folder, "program.ts"), program);
  writeFileSync(join(folder, "main.ts"), `import { use } from "./client.ts";\n${main}`);
  const provider = resolve("test/support/docs-provider.ts");
  const child = spawn(process.execPath, ["--import", provider, join(folder, "main.ts")], {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 60_000,
  });
  const [stdout, stderr] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  expect(stdout.split("\n").at(-2), stderr).toBe("Mounted. Mount|ed. not_found");
});
