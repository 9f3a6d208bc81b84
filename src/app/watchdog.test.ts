import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";

const module = new URL("./watchdog.ts", import.meta.url).href;

/** Starts a program with a watchdog of half a second, which says "ready" and then runs the code. */
async function start(code: string, ...options: readonly string[]) {
  const program = `
    const { startWatchdog } = await import("${module}");
    const stop = startWatchdog(500);
    const block = (ms) => { for (const end = Date.now() + ms; Date.now() < end; ); };
    setTimeout(() => { console.log("ready"); ${code} }, 600);`;
  const args = [...options, "--input-type=module", "-e", program];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let problems = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    problems += text;
  });
  const ended = once(child, "close").then(([code, signal]) => ({ code, signal, problems }));
  await once(child.stdout, "data");
  return { child, ended };
}

describe("a watchdog", () => {
  it("ends a process whose event loop is blocked, and says why", async () => {
    const { ended, child } = await start("for (;;);");
    expect(await ended).toMatchObject({
      signal: "SIGKILL",
      problems: `rivulet: the event loop was blocked for more than 0.5 s; ending process ${child.pid}.\n`,
    });
  });

  it("leaves a process alone that was stopped for longer", async () => {
    const { child, ended } = await start("setTimeout(stop, 800);");
    child.kill("SIGSTOP");
    await sleep(2_500); // the time that a watchdog with a clock would have counted
    child.kill("SIGCONT");
    expect(await ended).toMatchObject({ code: 0, signal: null });
  });

  it("leaves a process alone that an inspector may pause", async () => {
    const { ended } = await start("block(2_000); stop();", "--inspect=127.0.0.1:0");
    expect(await ended).toMatchObject({ code: 0, signal: null });
  });

  it("does not keep its process alive", async () => {
    const { ended } = await start("");
    expect(await ended).toMatchObject({ code: 0, signal: null });
  });
});
