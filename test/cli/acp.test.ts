import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Readable, Writable } from "node:stream";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { type AcpClientOptions, acpClient, shownBy } from "../support/acp-client.ts";
import { scriptedTeam } from "./support/program.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-acp-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const folder = () => mkdtempSync(join(directory, "f"));
const program = resolve("src/cli/main.ts");
const acpx = resolve("tools/acp/node_modules/acpx/dist/cli.js");

function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((end) => child.once("close", end));
}

/** An editor that started `rivulet acp` in a folder. */
async function start(cwd: string, options: AcpClientOptions = {}, config = scriptedTeam) {
  const child = spawn(process.execPath, [program, "acp", ...config], {
    cwd,
    stdio: ["pipe", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const end = ended(child);
  const editor = await acpClient(
    {
      input: Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>,
      output: Writable.toWeb(child.stdin),
    },
    options,
  );
  return { ...editor, child, end, errors: () => errors, shown: () => shownBy(editor.updates) };
}

const texts = ({ messages }: ReturnType<typeof shownBy>) => Object.values(messages).join("");

describe("rivulet acp", () => {
  it("answers prompts of an editor, asks for permissions, and ends with the connection", async () => {
    const cwd = folder();
    const editor = await start(cwd);
    const session = await editor.session(cwd);
    expect(await session.say("ask the team")).toBe("end_turn");
    const calls = Object.values(editor.shown().calls);
    expect(calls.map(({ status, text }) => `${status}: ${text}`)).toEqual(
      Array(2).fill("completed: The helper found it."),
    );
    expect(await session.say("remove it")).toBe("end_turn");
    expect(editor.permissions).toHaveLength(1);
    await editor.close();
    expect(await editor.end).toBe(0);
    expect(editor).toMatchObject({ problems: [] });
    expect(editor.errors()).toBe("");
  });

  it("keeps standard output free of what a config prints", async () => {
    const cwd = folder();
    const config = join(cwd, "prints.ts");
    const team = JSON.stringify(resolve("test/cli/support/config.ts"));
    writeFileSync(config, `console.log("Hello."); export { default } from ${team};`);
    const editor = await start(cwd, {}, ["--config", config]);
    const session = await editor.session(cwd);
    await session.say("hello");
    await editor.close();
    expect(await editor.end).toBe(0);
    expect(editor.problems).toEqual([]);
    expect(editor.errors()).toBe("Hello.\n");
  });

  it("continues a turn of a process that was killed", async () => {
    const cwd = folder();
    const asked = Promise.withResolvers<void>();
    const first = await start(cwd, {
      decide: () => {
        asked.resolve();
        return new Promise<never>(() => {});
      },
    });
    const { sessionId, say } = await first.session(cwd);
    void say("remove it").catch(() => {});
    await asked.promise;
    first.child.kill("SIGKILL");
    await first.end;
    const second = await start(cwd);
    await second.agent.request("session/load", { sessionId, cwd, mcpServers: [] });
    expect(second.shown().user).toBe("remove it");
    await expect.poll(() => texts(second.shown()), { timeout: 60_000 }).toContain("Done.");
    expect(second.permissions).toHaveLength(1);
    expect(Object.values(second.shown().calls)).toMatchObject([{ text: "removed a.txt" }]);
    expect(second.problems).toEqual([]);
  });

  it("ends on SIGTERM, and on a config that cannot be loaded", async () => {
    const editor = await start(folder());
    editor.child.kill("SIGTERM");
    expect(await editor.end).toBe(0);
    const broken = spawn(process.execPath, [program, "acp", "--config", "none.ts"], {
      ...{ cwd: folder(), stdio: "pipe" },
    });
    onTestFinished(() => void broken.kill("SIGKILL"));
    expect(await ended(broken)).toBe(2);
  });

  it("names the command that installs a missing package", async () => {
    const cwd = folder();
    const hook = `import { registerHooks } from "node:module";
      registerHooks({ resolve(name, context, next) {
        if (!name.startsWith("@agentclientprotocol/")) return next(name, context);
        throw new Error("Cannot find package '@agentclientprotocol/sdk'");
      } });`;
    writeFileSync(join(cwd, "hook.mjs"), hook);
    const args = ["--import", join(cwd, "hook.mjs"), program, "acp", ...scriptedTeam];
    // An editor keeps the pipe of the standard input open.
    const child = spawn(process.execPath, args, { cwd, stdio: "pipe" });
    let [output, errors] = ["", ""];
    child.stdout.on("data", (text) => (output += text));
    child.stderr.on("data", (text) => (errors += text));
    expect(await ended(child)).toBe(2);
    expect(output).toBe("");
    expect(errors).toBe(
      "rivulet: rivulet acp requires the package @agentclientprotocol/sdk, which is not installed. Run `npm i @agentclientprotocol/sdk`.\n",
    );
  });
});

describe("acpx", () => {
  const node = JSON.stringify(process.execPath);
  const agent = `${node} ${JSON.stringify(program)} acp ${scriptedTeam.join(" ")}`;

  /** Runs acpx in a folder, with a home of its own. */
  async function run(cwd: string, ...args: readonly string[]) {
    const home = join(cwd, "home");
    mkdirSync(home, { recursive: true });
    const given = ["--agent", agent, "--cwd", cwd, "--ttl", "1", "--format", "json", ...args];
    const child = spawn(process.execPath, [acpx, ...given], {
      cwd,
      env: { ...process.env, HOME: home },
      stdio: ["ignore", "pipe", "pipe"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    let [output, errors] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
    return { child, output: () => output, done: ended(child).then(() => ({ output, errors })) };
  }

  it("prompts, and answers permissions", async () => {
    const cwd = folder();
    const { output } = await (await run(cwd, "--approve-all", "exec", "remove it")).done;
    expect(output).toContain('"stopReason":"end_turn"');
    expect(output).toContain("removed a.txt");
    const denied = await (await run(cwd, "--deny-all", "exec", "remove it")).done;
    expect(denied.output).toContain("The user denied this.");
    expect(denied.output).not.toContain("removed a.txt");
  });

  it("cancels a turn, and loads the session in another process", async () => {
    const cwd = folder();
    await (await run(cwd, "sessions", "new")).done;
    const slow = await run(cwd, "prompt", "slow");
    await expect.poll(slow.output, { timeout: 60_000 }).toContain("Slowly");
    await (await run(cwd, "cancel")).done;
    expect((await slow.done).output).toContain('"stopReason":"cancelled"');
    // The process of the first prompts ends after a second without any.
    const status = async () => (await (await run(cwd, "status")).done).output;
    await expect.poll(status, { timeout: 60_000, interval: 300 }).toContain('"idle"');
    const { output } = await (await run(cwd, "prompt", "hello")).done;
    expect(output).toMatch(/"method":"session\/(load|resume)"/);
    expect(output).toContain("You said 2 things.");
  });
});
