import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { buildPage } from "../../scripts/build-page.ts";
import { connect, type RemoteRun } from "../../src/client.ts";
import { checkStream, type TaskEvent } from "../../src/protocol.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { collect } from "../agent/support/collect.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../support/postgres-server.ts";
import { rivulet, serving } from "./support/program.ts";

const config = resolve("test/cli/support/nodes.config.ts");
const program = resolve("src/cli/main.ts");
const folders: string[] = [];
const workers = new Set<ChildProcess>();
let postgres: Promise<PostgresServer> | undefined;

beforeAll(() => buildPage());
afterEach(() => {
  for (const worker of workers) kill(worker);
  workers.clear();
});
afterAll(async () => {
  await (await postgres)?.remove();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Kills a worker with its supervisor, as the end of its machine would. */
function kill(worker: ChildProcess): void {
  if (worker.pid === undefined || worker.exitCode !== null || worker.signalCode !== null) return;
  process.kill(-worker.pid, "SIGKILL");
}

/** A store that processes share, and what the processes need to know of it. */
async function sharedStore(kind: "sqlite" | "postgres") {
  const directory = mkdtempSync(join(tmpdir(), "rivulet-workers-"));
  folders.push(directory);
  const steps = join(directory, "steps");
  writeFileSync(steps, "");
  if (kind === "postgres") postgres ??= startPostgres();
  const url =
    kind === "sqlite" ? `sqlite:${join(directory, "store.db")}` : ((await postgres)?.url ?? "");
  return { directory, steps, env: { NODES_STORE: url, NODES_STEPS: steps } };
}

async function startWorker(directory: string, env: Readonly<Record<string, string>>) {
  const worker = spawn(process.execPath, [program, "worker", "--config", config], {
    ...{ cwd: directory, detached: true, stdio: ["ignore", "ignore", "pipe"] as const },
    env: { ...process.env, ...env },
  });
  workers.add(worker);
  let printed = "";
  for await (const chunk of worker.stderr as NonNullable<typeof worker.stderr>) {
    printed += chunk;
    if (printed.includes("runs the tasks of lead, asking, gated")) break;
  }
  expect(printed).toContain("runs the tasks of lead, asking, gated");
  return worker;
}

/** The events of a run, which must be legal, whole and each there once. */
async function eventsOf(run: RemoteRun): Promise<readonly TaskEvent[]> {
  const events = await collect(run.events({ after: -1, until: "root" }));
  expect(checkStream(events)).toEqual([]);
  return events;
}

/** The behaviour is the same on each store, so all but the takeovers run on one of them. */
const kinds = hasPostgres() ? (["sqlite", "postgres"] as const) : (["sqlite"] as const);

describe.each(kinds)("workers on %s", (kind) => {
  it("run what a server that runs nothing starts; a killed one loses nothing", async () => {
    const { directory, steps, env } = await sharedStore(kind);
    const server = await serving(directory, ["--config", config, "--no-run"], env);
    const client = connect(server.url, { token: server.token });
    const lead = client.agent("lead");
    const early = lead.run("Go.", { sessionId: `early-${kind}` });
    await early.task;
    let running = [await startWorker(directory, env), await startWorker(directory, env)];
    const runs = [
      early,
      ...[1, 2, 3, 4, 5].map((n) => lead.run("Go.", { sessionId: `${kind}-${n}` })),
    ];
    const results = Promise.all(runs.map((run) => run.result()));
    for (let kills = 0; kills < (kind === "sqlite" ? 1 : 3); kills++) {
      await once(process, "nothing", { signal: AbortSignal.timeout(700) }).catch(() => {});
      const [victim, ...others] = running;
      if (victim) kill(victim);
      running = [...others, await startWorker(directory, env)];
    }
    for (const { text } of await results)
      expect(text).toBe("The lead has arrived at the end of the way.");
    for (const run of runs) await eventsOf(run);
    // An effect without a record may happen again; a recorded one does not.
    const walked = readFileSync(steps, "utf8").trim().split("\n");
    expect(new Set(walked).size).toBe(runs.length * 3);
    expect(walked.length).toBeLessThanOrEqual(runs.length * 3 + 3 * runs.length);
    server.child.kill("SIGTERM");
    expect(await server.ended).toBe(0);
  }, 60_000);

  it("hand their runs over when they get SIGTERM", async () => {
    const { directory, steps, env: shared } = await sharedStore(kind);
    const env = { ...shared, NODES_LEASE: "30000" };
    const server = await serving(directory, ["--config", config, "--no-run"], env);
    const client = connect(server.url, { token: server.token });
    const first = await startWorker(directory, env);
    const lead = client.agent("lead");
    const runs = [1, 2, 3].map((n) => lead.run("Go.", { sessionId: `handed-${kind}-${n}` }));
    const results = Promise.all(runs.map((run) => run.result()));
    for await (const event of runs[0] as RemoteRun) if (event.type === "task.child.started") break;
    await startWorker(directory, env);
    const ended = once(first, "exit");
    first.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    for (const { text } of await results)
      expect(text).toBe("The lead has arrived at the end of the way.");
    for (const run of runs) {
      const isDiscarded = ({ type }: TaskEvent) => type === "task.output_item.discarded";
      expect((await eventsOf(run)).filter(isDiscarded)).toEqual([]);
    }
    const walked = readFileSync(steps, "utf8").trim().split("\n");
    expect(walked).toHaveLength(runs.length * 3);
    expect(new Set(walked).size).toBe(runs.length * 3);
    server.child.kill("SIGTERM");
    expect(await server.ended).toBe(0);
  }, 60_000);
});

describe.each(isDeep ? kinds : kinds.slice(-1))("workers on %s", (kind) => {
  it.each(["move", "finish"] as const)(
    "of two versions work on one database: %s",
    async (rollout) => {
      const { directory, steps, env } = await sharedStore(kind);
      const of = (version: string) => ({ ...env, NODES_VERSION: version, NODES_ROLLOUT: rollout });
      const server = await serving(directory, ["--config", config, "--no-run"], of("2"));
      const gated = connect(server.url, { token: server.token }).agent("gated");
      const waits = Promise.withResolvers<string>();
      const old = await startWorker(directory, of("1"));
      const run = gated.run("Go.", {
        sessionId: `updated-${rollout}-${kind}`,
        onWait: ({ reason }) => {
          if (reason === "unknown_version") waits.resolve(reason);
        },
      });
      const result = run.result();
      const versions = () => readFileSync(steps, "utf8").trim().split("\n");
      await expect.poll(versions, { timeout: 20_000 }).toEqual(["waits 1"]);
      kill(old);
      await startWorker(directory, of("2"));
      if (rollout === "finish") {
        expect(await waits.promise).toBe("unknown_version");
        await startWorker(directory, of("1"));
      }
      const next = rollout === "finish" ? "1" : "2";
      await expect.poll(versions, { timeout: 20_000 }).toEqual(["waits 1", `waits ${next}`]);
      writeFileSync(`${steps}.open`, "");
      expect((await result).text).toBe("The gate is open.");
      await eventsOf(run);
      server.child.kill("SIGTERM");
      expect(await server.ended).toBe(0);
    },
    60_000,
  );

  it("are listed with what they run, and continue what an operator retries", async () => {
    const { directory, steps, env } = await sharedStore(kind);
    const command = (...args: string[]) =>
      rivulet(["tasks", ...args, "--config", config], { cwd: directory, env });
    const server = await serving(directory, ["--config", config, "--no-run"], env);
    const gated = connect(server.url, { token: server.token }).agent("gated");
    const session = `listed-${kind}`;
    const run = gated.run("Go.", { sessionId: session });
    const { taskId } = await run.task;
    const waiting = await command("nodes");
    expect(waiting.output).toMatch(/live, runs nothing\n/);
    expect(waiting.output).toContain(`Waiting for a process\n  ${session}  gated`);
    await startWorker(directory, env);
    await expect
      .poll(async () => (await command("nodes")).output, { timeout: 20_000, interval: 100 })
      .toMatch(new RegExp(`live, runs lead, asking, gated\n  ${session}\n`));
    const moving = await command("move", session, "any");
    expect(moving.errors).toContain(`A process runs session ${session}.`);
    await run.cancel("enough");
    await run.result().catch(() => {});
    writeFileSync(`${steps}.open`, "");
    const retried = await command("retry", taskId);
    expect(retried).toMatchObject({ code: 0, output: expect.stringMatching(/^task_\w+\n$/) });
    const again = gated.attach({ taskId: retried.output.trim() });
    expect((await again.result()).text).toBe("The gate is open.");
    expect((await command("mve", "x")).errors).toContain('has no action "mve"');
    server.child.kill("SIGTERM");
    expect(await server.ended).toBe(0);
  }, 60_000);

  it("continue after an answer and a cancel that a server without tasks takes", async () => {
    const { directory, env } = await sharedStore(kind);
    const server = await serving(directory, ["--config", config, "--no-run"], env);
    const client = connect(server.url, { token: server.token });
    const worker = await startWorker(directory, env);
    const agent = client.agent("asking");
    const asked = await agent.call("Ask.", { sessionId: `asking-${kind}` });
    expect(asked.generateReason).toBe("approval_required");
    const reply = await agent.call(asked.approvals.map((approval) => approval.approve()));
    expect(reply.text).toBe("It was asked and answered.");
    const long = client.agent("lead").run("Go.", { sessionId: `cancelled-${kind}` });
    for await (const event of long) if (event.type === "task.text.delta") break;
    await long.cancel("enough");
    expect((await eventsOf(long)).at(-1)?.type).toBe("task.cancelled");
    const ended = once(worker, "exit");
    worker.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
    server.child.kill("SIGTERM");
    expect(await server.ended).toBe(0);
  }, 60_000);
});

it("a worker refuses a store in memory, and a folder without a config", async () => {
  const { directory, steps } = await sharedStore("sqlite");
  const run = async (args: readonly string[], env: Readonly<Record<string, string>>) => {
    const child = spawn(process.execPath, [program, "worker", ...args], {
      ...{ cwd: directory, stdio: ["ignore", "ignore", "pipe"] as const },
      env: { ...process.env, ...env },
    });
    const printed = await collect(child.stderr as NonNullable<typeof child.stderr>);
    return printed.join("");
  };
  expect(await run([], {})).toContain("There is no rivulet.config.ts");
  expect(await run(["--config", config], { NODES_STORE: "memory", NODES_STEPS: steps })).toContain(
    "A worker needs a store that processes share",
  );
});
