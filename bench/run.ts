// `npm run bench -- store` runs bench/store.ts, after the set-up that it needs; further arguments go to it. Without a name,
// it lists the benches.
import { spawnSync } from "node:child_process";

type Command = readonly [program: string, ...args: string[]];

interface Bench {
  /** The measured thing, in a few words. */
  readonly measures: string;
  /** The command that it needs first. */
  readonly setUp?: Command;
}

const benches: Readonly<Record<string, Bench>> = {
  protocol: { measures: "the cost of an event" },
  agent: { measures: "the agent's cost on top of its model in a warm process" },
  start: {
    measures:
      "the import, the first reply, chunks, steps, calls, children and runs in cold processes",
    setUp: ["tsdown"],
  },
  store: {
    measures:
      "the stores on SQLite and PostgreSQL beside raw inserts; children, steps and sessions",
  },
  cancel: { measures: "how long a cancel takes to end a tree of agents" },
  context: {
    measures: "how much of each prompt the next one repeats, and late iterations of a session",
  },
  session: {
    measures: "a task late in a session, after a compaction, and beside 10,000 waiting sessions",
  },
  memory: { measures: "what finished runs keep, how the process grows, a step of a HarnessAgent" },
  server: { measures: "event streams beside a plain HTTP server, and 10,000 idle ones" },
  live: {
    measures: "hundreds of live runs with a reader each, beside a bare server, pi and the AI SDK",
  },
  faces: { measures: "bytes for a token of a nested agent, by protocol" },
  remote: { measures: "what a child on another server costs" },
  page: {
    measures: "frames and long tasks of the page with many agents and long runs",
    setUp: [process.execPath, "scripts/setup.mjs", "--for-tests"],
  },
};

const [name, ...args] = process.argv.slice(2);
const bench = name === undefined ? undefined : benches[name];
if (bench === undefined) {
  const list = Object.entries(benches).map(
    ([key, { measures }]) => `  ${key.padEnd(9)} ${measures}`,
  );
  const text = ["Run one with `npm run bench -- <name>`:", ...list].join("\n");
  if (name === undefined) console.log(text);
  else {
    console.error(`Bench "${name}" does not exist. ${text}`);
    process.exitCode = 1;
  }
} else if (!succeeds(bench.setUp) || !succeeds([process.execPath, `bench/${name}.ts`, ...args])) {
  process.exitCode = 1;
}

function succeeds(command: Command | undefined): boolean {
  if (command === undefined) return true;
  const [program, ...rest] = command;
  const shell = process.platform === "win32";
  return spawnSync(program, rest, { stdio: "inherit", shell }).status === 0;
}
