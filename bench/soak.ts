// Mixed load for a long time: `npm run soak -- --minutes 30`. Two servers share one database. Users start runs, nested
// runs and approvals, cancel, read slowly, and leave and come back; the second server is killed and started again. Prints
// how the memory of the first server grows after a warm-up, what was lost and what is stuck, and exits with 1 over a limit.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { connect, type RemoteServer } from "../src/client.ts";
import type { TaskEvent } from "../src/protocol/event.ts";
import { wholeText } from "./soak/words.ts";

const { values: given } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    users: { type: "string", default: "40" },
  },
});
const minutes = Number(given.minutes);
const users = Number(given.users);
/** The memory grows by at most so many megabytes per minute after the warm-up. */
const maxSlope = 0.5;
const warmUp = 0.3;
/** A run that takes so long is stuck. */
const stuckMs = 90_000;
const killEveryMs = 45_000;

const folder = mkdtempSync(join(tmpdir(), "rivulet-soak-"));
const token = "soak-0123456789abcdef";
const program = fileURLToPath(new URL("./soak/server.ts", import.meta.url));
const endsAt = performance.now() + minutes * 60_000;
const counts = { runs: 0, refused: 0, kills: 0, lost: [] as string[], stuck: [] as string[] };
let nextId = 0;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

async function startServer(port: number): Promise<ChildProcess> {
  const flags = ["--expose-gc", "--disable-warning=ExperimentalWarning"];
  const args = [...flags, program, join(folder, "store.db"), String(port), token];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  await once(child, "message");
  return child;
}

async function memoryOf(server: ChildProcess): Promise<number> {
  const answer = once(server, "message");
  server.send("memory");
  return Number((await answer)[0]) / 1e6;
}

/** A server, and the other one, on which its runs can be found after a kill. */
interface Place {
  readonly near: RemoteServer;
  readonly far: RemoteServer;
}

type Scenario = (place: Place, taskId: string) => Promise<string | undefined>;

/** Each starts one run and returns what is wrong with its end. */
const scenarios: Readonly<Record<string, Scenario>> = {
  async follow({ near }, taskId) {
    const run = near.agent("talker").run("Go.", { taskId });
    return problemOf(await textOf(run));
  },
  async slow({ near }, taskId) {
    const run = near.agent("talker").run("Go.", { taskId });
    return problemOf(await textOf(run, () => sleep(Math.random() * 100)));
  },
  async leave({ near, far }, taskId) {
    const run = near.agent("talker").run("Go.", { taskId });
    let seen = 0;
    for await (const _ of run) if (++seen > 10) break;
    return problemOf(await whenReachable(() => textOf(far.task(taskId).events({ after: -1 }))));
  },
  async nested({ near }, taskId) {
    const run = near.agent("lead").run("Go.", { taskId });
    const texts = new Map<string, string>();
    for await (const event of run) addText(texts, event);
    const children = [...texts].filter(([id]) => id !== taskId).map(([, text]) => text);
    const problem =
      children.length === 3 ? children.map(problemOf).find(Boolean) : "a child is lost";
    return problem ?? ((await run.result()).text === "All is done." ? undefined : "another reply");
  },
  async approve({ near, far }, taskId) {
    const asked = await near.agent("payer").call("Go.", { taskId });
    const [approval] = asked.approvals;
    if (approval === undefined) return "nothing was asked";
    const { sessionId } = asked.task;
    const answer = () => far.agent("payer").call([approval.approve()], { sessionId });
    const reply = await whenReachable(answer);
    return reply.text === "It is settled." ? undefined : `another reply: ${reply.text}`;
  },
  async cancel({ near }, taskId) {
    const run = near.agent("lead").run("Go.", { taskId });
    await run.task;
    await sleep(Math.random() * 800);
    await whenReachable(() => run.cancel("enough"));
    const { generateReason } = await whenReachable(() => near.task(taskId).result()).catch(
      (error: { readonly code?: string }) => {
        if (error.code === "cancelled") return { generateReason: "interrupted" }; // before it began
        throw error;
      },
    );
    return ["interrupted", "model_stop"].includes(generateReason) ? undefined : generateReason;
  },
};

/** A person tries again when the server is gone for a moment. */
async function whenReachable<Result>(attempt: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if ((error as { readonly code?: string }).code !== "unreachable") throw error;
      await sleep(500);
    }
  }
}

function addText(texts: Map<string, string>, event: TaskEvent): void {
  if (event.type === "task.output_item.discarded") texts.delete(event.task_id);
  if (event.type !== "task.text.delta") return;
  texts.set(event.task_id, (texts.get(event.task_id) ?? "") + event.delta);
}

/** The text that a run keeps: a killed server may have shown one that the next one says again. */
async function textOf(events: AsyncIterable<TaskEvent>, wait?: () => Promise<void>) {
  const texts = new Map<string, string>();
  for await (const event of events) {
    if (event.type === "task.snapshot") return wholeText; // trimmed, and checked by its reader
    addText(texts, event);
    await wait?.();
  }
  return [...texts.values()][0] ?? "";
}

function problemOf(text: string): string | undefined {
  return text === wholeText ? undefined : `${text.length} of ${wholeText.length} characters`;
}

/** Whether a run was never started, because its server was gone. */
async function isUnknown({ far }: Place, taskId: string): Promise<boolean> {
  const found = await far.task(taskId).task.catch((error: { readonly code?: string }) => error);
  return "code" in found && found.code === "not_found";
}

async function use(place: Place): Promise<void> {
  const names = Object.keys(scenarios);
  while (performance.now() < endsAt) {
    const name = names[Math.floor(Math.random() * names.length)] ?? "";
    const taskId = `task_soak_${nextId++}`;
    const late = AbortSignal.timeout(stuckMs);
    const stuck = once(late, "abort").then(() => "stuck" as const);
    const done = (scenarios[name] as Scenario)(place, taskId).then(
      (problem) => problem && `${name} ${taskId}: ${problem}`,
      async (error: { readonly code?: string; readonly message: string }) => {
        if (await isUnknown(place, taskId)) return "refused" as const;
        return `${name} ${taskId}: ${error.code} ${error.message}`;
      },
    );
    const outcome = await Promise.race([done, stuck]);
    if (outcome === "stuck") counts.stuck.push(`${name} ${taskId}`);
    else if (outcome === "refused") counts.refused += 1;
    else if (outcome !== undefined) counts.lost.push(outcome);
    counts.runs += 1;
  }
}

/** The slope of a line through the points, in units of y per unit of x. */
function slopeOf(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
  const [x, y] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))];
  const over = points.reduce((sum, point) => sum + (point[0] - x) * (point[1] - y), 0);
  return over / points.reduce((sum, point) => sum + (point[0] - x) ** 2, 0);
}

const [firstPort, secondPort] = [await freePort(), await freePort()];
const first = await startServer(firstPort);
let second = await startServer(secondPort);
const [a, b] = [firstPort, secondPort].map((port) =>
  connect(`http://127.0.0.1:${port}`, { token }),
) as [RemoteServer, RemoteServer];
const startedAt = performance.now();
const memory: [minute: number, megabytes: number][] = [];
const sampling = setInterval(async () => {
  const minute = (performance.now() - startedAt) / 60_000;
  memory.push([minute, await memoryOf(first)]);
}, 5_000);
const killing = setInterval(async () => {
  counts.kills += 1;
  second.kill("SIGKILL");
  await once(second, "exit");
  second = await startServer(secondPort);
}, killEveryMs);
const places = [
  { near: a, far: b },
  { near: b, far: a },
];
await Promise.all(Array.from({ length: users }, (_, n) => use(places[n % 2] as Place)));
clearInterval(sampling);
clearInterval(killing);
const warm = memory.filter(([minute]) => minute > minutes * warmUp);
const slope = slopeOf(warm);
const { runs, refused, kills, lost, stuck } = counts;
console.log(
  `${minutes} minutes, ${users} users, ${runs} runs, ${kills} kills, ${refused} starts refused by a killed server`,
);
console.log(
  `memory of the first server ${warm[0]?.[1].toFixed(0)} to ${warm.at(-1)?.[1].toFixed(0)} MB after ${(minutes * warmUp).toFixed(1)} minutes: ${slope.toFixed(2)} MB per minute (limit ${maxSlope})`,
);
console.log(`lost: ${lost.length}, stuck: ${stuck.length}`);
for (const problem of [...lost, ...stuck].slice(0, 20)) console.log(`  ${problem}`);
for (const server of [first, second]) {
  server.kill("SIGKILL");
  await once(server, "exit");
}
rmSync(folder, { recursive: true, force: true });
process.exit(lost.length + stuck.length === 0 && slope <= maxSlope ? 0 : 1);
