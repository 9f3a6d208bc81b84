import { parseArgs } from "node:util";
import { RivuletError } from "../base/error.ts";
import { nearest } from "../base/options.ts";
import { type Flags, flagHelp } from "./flags.ts";
import { column, wrap } from "./text.ts";

/** The commands of the program. */
export type CommandName =
  | "chat"
  | "run"
  | "serve"
  | "worker"
  | "mcp"
  | "acp"
  | "token"
  | "init"
  | "tasks"
  | "cost"
  | "eval"
  | "test"
  | "watch"
  | "replay"
  | "export"
  | "import"
  | "migrate";

/** The parsed command line. */
export interface Arguments {
  readonly command: CommandName;
  readonly operands: readonly string[];
  readonly flags: Flags;
  /** The text to print instead of running the command. */
  readonly help?: string;
}

interface CommandHelp {
  readonly operands: string;
  readonly summary: string;
  readonly flags: readonly (keyof Flags)[];
  readonly most: number;
  readonly details: string;
}

const ofAgents = ["config", "agent", "model", "workspace", "session"] as const;

const commands: Readonly<Record<CommandName, CommandHelp>> = {
  chat: {
    operands: "",
    summary: "talk to an agent in this terminal",
    flags: [...ofAgents, "yes"],
    most: 0,
    details: `Type a message and press Enter. While agents work, Enter steers them, Tab shows their details, and Ctrl-C cancels the run; a second Ctrl-C leaves at once. Type /help for the chat commands.

Sessions are stored in .rivulet/. Continue one with --session or /resume.`,
  },
  run: {
    operands: "<prompt>",
    summary: "give an agent one task and wait for its answer",
    flags: [...ofAgents, "yes", "json", "quiet"],
    most: Number.POSITIVE_INFINITY,
    details: `Exit codes: 0 completed, 1 failed, 2 wrong usage or settings, 3 ended early or waits for an answer, 130 cancelled. Ctrl-C and a closed pipe cancel the run.

  rivulet run "Why do rivers meander?"
  rivulet run --json "Why do rivers meander?" | jq -r .type
  rivulet run --quiet --yes "Write the report." > report.md`,
  },
  serve: {
    operands: "[config]",
    summary: "serve agents: page, HTTP API and event streams",
    flags: [
      ...(["config", "port", "host", "postgres", "open", "run", "demo", "terminal"] as const),
      ...(["model", "workspace", "session", "yes", "json", "quiet"] as const),
    ],
    most: Number.POSITIVE_INFINITY,
    details: `Prints one address. Without \`auth\` in the config the address contains a token and works on this machine only.

  rivulet serve                      the agents of rivulet.config.ts
  rivulet serve --no-run             the same, while workers run the tasks
  rivulet serve --postgres           the same with workers of its own, on PostgreSQL
  rivulet serve --demo               the sample team in the browser
  rivulet serve --demo --terminal    the sample team in this terminal`,
  },
  worker: {
    operands: "[config]",
    summary: "run the tasks of a store that several processes share, and serve nothing",
    flags: ["config", "model"],
    most: 1,
    details: `Start as many as you need, on as many machines as reach the store. A worker that is stopped releases its tasks at their last step, and others continue them; one that dies loses nothing.

  rivulet worker                     the agents of rivulet.config.ts
  rivulet serve --no-run             serves what workers run`,
  },
  mcp: {
    operands: "[config]",
    summary: "serve agents to an MCP client that starts this program",
    flags: ["config", "model", "workspace"],
    most: 1,
    details: `Speaks MCP over standard input and output, and ends when the client closes its end. Tasks that run then stop at their last step, and continue at the next start.

  rivulet mcp                        the agents of rivulet.config.ts`,
  },
  acp: {
    operands: "",
    summary:
      "serve agents to an editor that speaks the Agent Client Protocol, on standard input and output",
    flags: ["config", "agent", "model", "workspace", "user"],
    most: 0,
    details: `An editor starts this command in the folder that it has open. Requires the package @agentclientprotocol/sdk.

  rivulet acp --agent lead
  npx acpx --agent "npx rivulet acp" exec "Why do rivers meander?"`,
  },
  token: {
    operands: "[create | list | revoke <id>]",
    summary: "manage tokens of clients, which work on all servers of the store at once",
    flags: ["config", "user", "scope", "expires", "name", "json"],
    most: 2,
    details: `Prints a new token once; the store has only its hash. A revoked token is refused at once, without a restart.

  rivulet token create --user ann --scope read --expires 30d --name dashboard
  rivulet token list
  rivulet token revoke 3f9a62c01b7e`,
  },
  init: {
    operands: "[folder]",
    summary: "create a project: config, workspace, two subagents, a test",
    flags: [],
    most: 1,
    details: `Existing files are not changed.

  rivulet init my-agents && cd my-agents && npm install && npm test`,
  },
  tasks: {
    operands: "[nodes | retry <task> | move <session> <place>]",
    summary: "list the tasks of the store, newest first, or the processes that run them",
    flags: ["config", "limit", "waiting", "json"],
    most: 3,
    details: `--waiting lists what waits for a person, in all sessions of all users. nodes lists the processes on the store, what each runs, what waits for one, and what was judged poison. retry starts a task again that has not completed. move lets another place, or any, continue a session that no process can run.

  rivulet tasks --limit 5
  rivulet tasks --waiting
  rivulet tasks --json | jq -r .taskId
  rivulet tasks retry task_01J…
  rivulet tasks move a1b2c3d4 any`,
  },
  cost: {
    operands: "[task or session]",
    summary: "add up tokens and cost of a task, a session or the whole store",
    flags: ["config", "by", "from", "to", "user", "json"],
    most: 1,
    details: `A task counts with all its subagents, and without --user all users count. A price that nothing tells is unknown, not 0.

  rivulet cost                       all sessions, by agent and model
  rivulet cost a1b2c3d4 --by path    one session
  rivulet cost --by day --from 2026-11-01 --json`,
  },
  eval: {
    operands: "[file or name]",
    summary: "run evals: cases, agents side by side, and scores",
    flags: ["config", "json", "junit", "concurrency", "fail-below", "retry-failed"],
    most: 1,
    details: `Runs the evals that files such as capitals.eval.ts export. Runs and judgements are in the store, so an eval that was interrupted continues, and one that has ended is read back.

Exit codes: 0 scored, 1 below --fail-below, with errors or with cells that did not run, 2 wrong usage or settings, 130 interrupted.

  rivulet eval
  rivulet eval capitals --fail-below 0.8 --junit report.xml
  rivulet eval --json | jq .total.score`,
  },
  test: {
    operands: "from [task or session]",
    summary: "turn a run into a test that replays it offline",
    flags: ["config", "out", "force"],
    most: 2,
    details: `Writes a vitest file and a recording: what the models, the tools and the people said in the whole tree. Without an id, takes the newest task.

  rivulet test from task_01J…
  rivulet test from a1b2c3d4 --out test/report.test.ts`,
  },
  watch: {
    operands: "[task or session]",
    summary: "follow a run of another process",
    flags: ["config", "json"],
    most: 1,
    details: `Without an id, follows the newest task. Ctrl-C ends watching; the run continues.

  rivulet watch                      the newest run
  rivulet watch a1b2c3d4             the newest run of a session`,
  },
  replay: {
    operands: "<task or file>",
    summary: "play back a run from the store or from a file with one event per line",
    flags: ["config", "speed", "json"],
    most: 1,
    details: `  rivulet replay task_01J… --speed 4
  rivulet run --json "…" > run.jsonl && rivulet replay run.jsonl`,
  },
  export: {
    operands: "[session]…",
    summary: "print sessions as lines of JSON, to move them to another store",
    flags: ["config"],
    most: Number.POSITIVE_INFINITY,
    details: `Without a session, prints all sessions and files of the store. A session that runs cannot be exported.

  rivulet export > backup.jsonl
  rivulet export a1b2c3d4 > session.jsonl`,
  },
  import: {
    operands: "[file]",
    summary: "add exported sessions to the store",
    flags: ["config"],
    most: 1,
    details: `Reads standard input without a file. Sessions that exist already are not changed. An interrupted import can be repeated.

  rivulet import backup.jsonl
  rivulet export | (cd ../other && rivulet import)`,
  },
  migrate: {
    operands: "[url]",
    summary: "bring the tables of a store to the version of this program",
    flags: ["config", "schema", "print"],
    most: 1,
    details: `Migrates the PostgreSQL database at the URL or in DATABASE_URL, or else the store of the config. Processes of the version before continue to work.

  rivulet migrate postgres://owner@db/app
  rivulet migrate postgres://owner@db/app --print > migration.sql`,
  },
};

const names = Object.keys(commands) as CommandName[];

/** Reads the command line; throws `invalid_arguments` with the nearest spelling. `columns` is the width of the help. */
export function readArguments(args: readonly string[], columns = 100): Arguments {
  const [first = "", ...rest] = args;
  const isNamed = first !== "" && !first.startsWith("-");
  if (first === "help" || first === "--help" || first === "-h")
    return { command: "chat", operands: [], flags: {}, help: helpFor(rest[0], columns) };
  if (isNamed && !names.includes(first as CommandName)) throw unknownCommand(first);
  const command = isNamed ? (first as CommandName) : "chat";
  const { tokens, values, positionals } = parseArgs({
    args: (isNamed ? rest : args).map(withEmptyValue),
    strict: false,
    allowPositionals: true,
    allowNegative: true,
    tokens: true,
    options: {
      ...Object.fromEntries(
        Object.entries(flagHelp).map(([name, { value }]) => [
          name,
          { type: value === undefined ? ("boolean" as const) : ("string" as const) },
        ]),
      ),
      help: { type: "boolean", short: "h" },
      version: { type: "boolean" },
    },
  });
  const allowed = new Set<string>([...commands[command].flags, "help", "version"]);
  for (const token of tokens) if (token.kind === "option") assertFlag(command, token, allowed);
  const { help, version: _, ...flags } = values as Flags & { help?: boolean; version?: boolean };
  if (help)
    return {
      command,
      operands: [],
      flags: {},
      help: helpFor(isNamed ? command : undefined, columns),
    };
  const { most } = commands[command];
  if (positionals.length > most)
    throw usageError(
      `${isNamed ? `rivulet ${command}` : "rivulet"} takes ${["no argument", "one argument"][most] ?? `at most ${most} arguments`}, got ${positionals.length}.`,
      "Put text with spaces in quotes.",
    );
  return { command, operands: positionals, flags };
}

/** A flag whose value is optional and missing gets an empty one. */
function withEmptyValue(word: string, index: number, words: readonly string[]): string {
  const flag = flagHelp[word.replace(/^--/, "") as keyof Flags];
  const isAlone = words[index + 1]?.startsWith("-") ?? true;
  return word.startsWith("--") && flag?.isOptional && isAlone ? `${word}=` : word;
}

function assertFlag(
  command: CommandName,
  { name, rawName, value: given }: { name: string; rawName: string; value?: string | undefined },
  allowed: ReadonlySet<string>,
): void {
  const flag = name.replace(/^no-/, "");
  if (!allowed.has(flag)) throw unknownFlag(command, rawName, allowed);
  const value = flagHelp[flag as keyof Flags]?.value;
  if (value !== undefined && given === undefined)
    throw usageError(`${rawName} needs a value.`, `Write ${rawName} <${value}>.`);
  if (value === undefined && given !== undefined)
    throw usageError(`${rawName} takes no value.`, `Write ${rawName}.`);
}

/** The help of a command, or of the program, in lines of at most `columns` characters. */
export function helpFor(name: string | undefined, columns: number): string {
  if (name === undefined) return overview(columns);
  if (!names.includes(name as CommandName)) throw unknownCommand(name);
  const { operands, summary, flags, details } = commands[name as CommandName];
  const title = name === "chat" ? "rivulet" : `rivulet ${name}`;
  return [
    `${title} ${operands}`.trim(),
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`,
    ...(details === "" ? [] : ["", ...wrap(details, columns)]),
    ...(flags.length === 0 ? [] : ["", "Flags", ...twoColumns(flags.map(flagRow), columns)]),
    "",
  ].join("\n");
}

type HelpRow = readonly [term: string, meaning: string];

function flagRow(name: keyof Flags): HelpRow {
  const { value, isOptional, text } = flagHelp[name];
  const operand = value === undefined ? "" : isOptional ? ` [${value}]` : ` <${value}>`;
  return [`--${name}${operand}`, text];
}

const minMeaning = 34;

/** Lays out terms and their meanings side by side, or below each other where there is no room. */
export function twoColumns(rows: readonly HelpRow[], columns: number): readonly string[] {
  const width = Math.max(...rows.map(([term]) => term.length)) + 2;
  const room = columns - 2 - width;
  return rows.flatMap(([term, meaning]) => {
    if (room < minMeaning) return wrap(`  ${term}\n      ${meaning}`, columns);
    const [first = "", ...rest] = wrap(meaning, room);
    return [`  ${column(term, width)}${first}`, ...rest.map((row) => " ".repeat(2 + width) + row)];
  });
}

function overview(columns: number): string {
  const rows = names.map((name): HelpRow => {
    const { operands, summary } = commands[name];
    return [name === "chat" ? "rivulet" : `rivulet ${name} ${operands}`.trim(), summary];
  });
  const first: readonly HelpRow[] = [
    ["rivulet serve --demo", "see a team of agents at work in the browser; no API key, no network"],
    ["rivulet init my-agents", "create a project, then: cd my-agents && npm install && npm test"],
    ['rivulet run "…" --json', "for scripts: one event per line; the exit code is the outcome"],
  ];
  const end =
    "A config (rivulet.config.ts) exports { agents, store?, auth?, … } as its default. Without one, the commands use a sample team with the offline model demo:analyst. rivulet <command> --help explains a command.";
  return [
    ...wrap("Rivulet runs agents that call agents, and shows every token of every agent.", columns),
    ...["", ...twoColumns(rows, columns)],
    ...["", "Start here", ...twoColumns(first, columns)],
    ...["", ...wrap(end, columns), ""],
  ].join("\n");
}

function unknownCommand(name: string): RivuletError {
  if (/\s/.test(name))
    return usageError(
      `${JSON.stringify(name.slice(0, 60))} is not a command.`,
      'To ask an agent, write: rivulet run "your question".',
    );
  const near = nearest(
    name,
    names.filter((known) => known !== "chat"),
  )[0];
  return usageError(
    `There is no command ${JSON.stringify(name.slice(0, 60))}.`,
    near === undefined ? "rivulet --help lists the commands." : `Did you mean rivulet ${near}?`,
  );
}

function unknownFlag(
  command: CommandName,
  flag: string,
  allowed: ReadonlySet<string>,
): RivuletError {
  const near = nearest(flag.replace(/^--?(no-)?/, ""), [...allowed])[0];
  const title = command === "chat" ? "rivulet" : `rivulet ${command}`;
  return usageError(
    `${title} has no flag ${flag.slice(0, 60)}.`,
    near === undefined ? `${title} --help lists the flags.` : `Did you mean --${near}?`,
  );
}

/** The error for a command line that does not fit. */
export function usageError(message: string, hint: string): RivuletError {
  return new RivuletError("invalid_arguments", message, { hint });
}

/** Reads a number from a flag. */
export function numberFlag(
  name: string,
  text: string | undefined,
  most: number,
): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && value <= most) return value;
  throw usageError(
    `--${name} must be a number from 0 to ${most}, got ${JSON.stringify(text.slice(0, 40))}.`,
    `Write --${name} ${name === "port" ? 8080 : 10}.`,
  );
}
