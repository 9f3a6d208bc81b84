import { parseArgs } from "node:util";
import { RivuletError } from "../protocol/error.ts";
import { nearest } from "../protocol/options.ts";

/** The commands of the program. */
export type CommandName = "chat" | "run" | "serve" | "init" | "tasks" | "watch" | "replay";

/** The parsed command line. */
export interface Arguments {
  readonly command: CommandName;
  readonly operands: readonly string[];
  readonly flags: Flags;
  /** The text to print instead of running the command. */
  readonly help?: string;
}

/** The flags that were given. */
export interface Flags {
  readonly config?: string;
  readonly model?: string;
  readonly workspace?: string;
  readonly agent?: string;
  readonly session?: string;
  readonly port?: string;
  readonly host?: string;
  readonly speed?: string;
  readonly limit?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly demo?: boolean;
  readonly terminal?: boolean;
  readonly open?: boolean;
}

/** A flag in the help; `value` names what follows it, and a flag without one is on or off. */
interface FlagHelp {
  readonly value?: string;
  readonly text: string;
}

const flagHelp: Readonly<Record<keyof Flags, FlagHelp>> = {
  config: {
    value: "file",
    text: "the config; defaults to rivulet.config.ts or .js in this folder",
  },
  model: {
    value: "provider:id",
    text: "use this model instead of the configured one. Also RIVULET_MODEL.",
  },
  workspace: {
    value: "folder",
    text: "the sample team works in this folder, with its AGENTS.md and subagents/*.md",
  },
  agent: { value: "name", text: "the agent to talk to; defaults to the first of the config" },
  session: { value: "id", text: "continue this session" },
  port: { value: "number", text: "listen on this port; defaults to 8080. 0: any free port" },
  host: {
    value: "address",
    text: "listen on this address; defaults to 127.0.0.1. Another one needs `auth`.",
  },
  speed: {
    value: "factor",
    text: "play faster or slower, such as 4 or 0.5; `max` plays without pauses",
  },
  limit: { value: "count", text: "how many tasks to list; defaults to 20" },
  yes: {
    text: "approve every request of the agents. Without it and without a terminal, requests are denied.",
  },
  json: { text: "print one event per line as JSON, and nothing else" },
  quiet: { text: "print only the answer" },
  demo: { text: "use the sample team, the offline model and a server that may be killed" },
  terminal: { text: "with --demo: show the demo in this terminal instead of the browser" },
  open: { text: "open the browser; --no-open does not" },
};

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
    details: `Type a message and press Enter. While the agents work, Enter sends them your message (steering), Tab opens and
closes the details of each agent, and Ctrl-C cancels; a second Ctrl-C leaves at once. Type /help for the commands.
Sessions are stored in .rivulet/ and can be continued with --session or /resume.`,
  },
  run: {
    operands: "<prompt>",
    summary: "give an agent one task and wait for its answer",
    flags: [...ofAgents, "yes", "json", "quiet"],
    most: Number.POSITIVE_INFINITY,
    details: `Exit codes: 0 completed, 1 failed, 2 wrong usage or settings, 3 ended early or waits for an answer, 130 cancelled.

  rivulet run "Why do rivers meander?"
  rivulet run --json "Why do rivers meander?" | jq -r .type
  rivulet run --quiet --yes "Write the report." > report.md`,
  },
  serve: {
    operands: "[config]",
    summary: "serve the agents of a config: page, HTTP API and event streams",
    flags: [
      "config",
      "port",
      "host",
      "open",
      "demo",
      "terminal",
      "model",
      "workspace",
      "session",
      "yes",
      "json",
      "quiet",
    ],
    most: Number.POSITIVE_INFINITY,
    details: `Prints one address. Without \`auth\` in the config it contains a token and works on this machine only.

  rivulet serve --demo                        the sample team in the browser, offline
  rivulet serve --demo --terminal             the same in this terminal; /kill kills the server in mid-sentence
  rivulet serve --demo "How do deltas form?"  asks one question and ends`,
  },
  init: {
    operands: "[folder]",
    summary: "create a project: config, workspace, two subagents, a test",
    flags: [],
    most: 1,
    details: "Writes files that do not exist yet, and changes none.",
  },
  tasks: {
    operands: "",
    summary: "list the tasks of the store, newest first",
    flags: ["config", "limit", "json"],
    most: 0,
    details: "",
  },
  watch: {
    operands: "[task or session]",
    summary: "follow a run that another process works on",
    flags: ["config", "json"],
    most: 1,
    details:
      "Without an id, the newest task. Watching changes nothing; Ctrl-C ends it, and the run continues.",
  },
  replay: {
    operands: "<task or file>",
    summary: "play a run again, from the store or from a file with one event per line",
    flags: ["config", "speed", "json"],
    most: 1,
    details: "",
  },
};

const names = Object.keys(commands) as CommandName[];

/** Reads the command line; throws `invalid_arguments` with the nearest spelling. */
export function readArguments(args: readonly string[]): Arguments {
  const [first = "", ...rest] = args;
  const isNamed = first !== "" && !first.startsWith("-");
  if (first === "help" || first === "--help" || first === "-h")
    return { command: "chat", operands: [], flags: {}, help: helpFor(rest[0]) };
  if (isNamed && !names.includes(first as CommandName)) throw unknownCommand(first);
  const command = isNamed ? (first as CommandName) : "chat";
  const { tokens, values, positionals } = parseArgs({
    args: [...(isNamed ? rest : args)],
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
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const name = token.name.replace(/^no-/, "");
    if (!allowed.has(name)) throw unknownFlag(command, token.rawName, allowed);
    const value = flagHelp[name as keyof Flags]?.value;
    if (value !== undefined && token.value === undefined)
      throw usageError(`${token.rawName} needs a value.`, `Write ${token.rawName} <${value}>.`);
    if (value === undefined && token.value !== undefined)
      throw usageError(`${token.rawName} takes no value.`, `Write ${token.rawName}.`);
  }
  const { help, version: _, ...flags } = values as Flags & { help?: boolean; version?: boolean };
  if (help)
    return { command, operands: [], flags: {}, help: helpFor(isNamed ? command : undefined) };
  const { most } = commands[command];
  if (positionals.length > most)
    throw usageError(
      `${isNamed ? `rivulet ${command}` : "rivulet"} takes ${most === 0 ? "no argument" : "one argument"}, got ${positionals.length}.`,
      "Put text with spaces in quotes.",
    );
  return { command, operands: positionals, flags };
}

/** The help of a command, or of the program. */
export function helpFor(name: string | undefined): string {
  if (name === undefined || !names.includes(name as CommandName)) return overview;
  const { operands, summary, flags, details } = commands[name as CommandName];
  const title = name === "chat" ? "rivulet" : `rivulet ${name}`;
  return [
    `${title} ${operands}`.trim(),
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`,
    ...(details === "" ? [] : ["", details]),
    ...(flags.length === 0 ? [] : ["", "Flags", ...flags.map(flagLine)]),
    "",
  ].join("\n");
}

function flagLine(name: keyof Flags): string {
  const { value, text } = flagHelp[name];
  return `  ${`--${name}${value === undefined ? "" : ` ${value}`}`.padEnd(22)} ${text}`;
}

const overview = `Rivulet runs agents that call agents, and shows every token of every one of them.

  rivulet                          ${commands.chat.summary}
${names
  .filter((name) => name !== "chat")
  .map(
    (name) =>
      `  ${`rivulet ${name} ${commands[name].operands}`.trim().padEnd(32)} ${commands[name].summary}`,
  )
  .join("\n")}

Start here
  rivulet serve --demo       see a team of agents at work in the browser; no API key, no network
  rivulet init my-agents     create a project of your own, then: cd my-agents && npm install && npm test
  rivulet run "…" --json     use it in scripts: one event per line, and the exit code tells the outcome

A config (rivulet.config.ts) exports { agents, store?, auth?, … } as its default. Without one, the commands use the
sample team with the offline model demo:analyst. rivulet <command> --help explains a command.
`;

function unknownCommand(name: string): RivuletError {
  if (/\s/.test(name))
    return usageError(
      `${JSON.stringify(name.slice(0, 60))} is not a command.`,
      'To ask an agent, write: rivulet run "your question".',
    );
  const near = nearest(
    name,
    names.filter((one) => one !== "chat"),
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
