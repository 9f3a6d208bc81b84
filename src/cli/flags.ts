/** The flags that were given. */
export interface Flags {
  readonly config?: string;
  readonly model?: string;
  readonly workspace?: string;
  readonly agent?: string;
  readonly session?: string;
  readonly user?: string;
  readonly name?: string;
  readonly scope?: string;
  readonly expires?: string;
  readonly port?: string;
  readonly host?: string;
  /** Empty if no value follows the flag. */
  readonly postgres?: string;
  readonly speed?: string;
  readonly limit?: string;
  readonly waiting?: boolean;
  readonly by?: string;
  readonly from?: string;
  readonly to?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly demo?: boolean;
  readonly terminal?: boolean;
  readonly open?: boolean;
  readonly run?: boolean;
  readonly print?: boolean;
  readonly schema?: string;
  readonly junit?: string;
  readonly concurrency?: string;
  readonly "fail-below"?: string;
  readonly "retry-failed"?: boolean;
  readonly out?: string;
  readonly force?: boolean;
}

/** A flag in the help; `value` names what follows it, and a flag without one is on or off. */
interface FlagHelp {
  readonly value?: string;
  /** The flag may stand alone. */
  readonly isOptional?: boolean;
  readonly text: string;
}

/** The flags in the help. */
export const flagHelp: Readonly<Record<keyof Flags, FlagHelp>> = {
  config: {
    value: "file",
    text: "path of the config; defaults to rivulet.config.ts, .mts, .js or .mjs in this folder",
  },
  model: {
    value: "provider:id",
    text: "model for the agents; overrides the config and RIVULET_MODEL. Subagents that name a model keep it",
  },
  workspace: {
    value: "folder",
    text: "workspace of the sample team, with AGENTS.md and subagents/*.md; only without a config",
  },
  agent: { value: "name", text: "the agent to talk to; defaults to the first one in the config" },
  session: { value: "id", text: "continue this session" },
  user: {
    value: "id",
    text: "the user of the sessions; defaults to none, as on a server without `auth`",
  },
  name: { value: "text", text: "what the token is for" },
  scope: {
    value: "scopes",
    text: "what the token allows: read, write or read,write; defaults to both",
  },
  expires: { value: "time", text: "when the token expires, such as 12h or 30d; defaults to never" },
  port: { value: "number", text: "port to listen on; defaults to 8080. 0 selects a free port" },
  host: {
    value: "address",
    text: "address to listen on; defaults to 127.0.0.1. Others require `auth` in the config",
  },
  postgres: {
    value: "address",
    isOptional: true,
    text: "serve in one process and run tasks in two others, on this database: embedded (installed by npm, data in .rivulet/postgres) or postgres://…; defaults to DATABASE_URL, then to embedded",
  },
  speed: {
    value: "factor",
    text: "playback speed, such as 4 or 0.5; `max` plays without pauses",
  },
  limit: { value: "count", text: "number of tasks to list; defaults to 20" },
  waiting: { text: "list the approvals that wait for a person" },
  by: {
    value: "keys",
    text: "what tells rows apart: agent, path, model, tool, user, session, day; defaults to agent,model",
  },
  from: { value: "day", text: "the first day, such as 2026-11-01, in UTC" },
  to: { value: "day", text: "the last day" },
  yes: {
    text: "approve all requests. Without it, requests are denied when there is no terminal to ask in",
  },
  json: {
    text: "print JSON, one event (for tasks: one task, for eval: one report) per line, and nothing else",
  },
  quiet: { text: "print only the answer" },
  demo: { text: "serve the sample team with the offline model; the server can be killed" },
  terminal: { text: "with --demo: show the demo in this terminal instead of the browser" },
  open: { text: "open the browser; the demo does, unless you pass --no-open" },
  print: { text: "print the SQL instead of running it" },
  out: { value: "file", text: "the test to write; the recording is written beside it" },
  force: { text: "replace files that exist" },
  schema: { value: "name", text: "the schema of the tables; defaults to rivulet" },
  junit: { value: "file", text: "also write the report in the format of JUnit" },
  concurrency: { value: "count", text: "how many cells run at a time; overrides the eval" },
  "fail-below": { value: "score", text: "exit with 1 if the mean of an eval is below it" },
  "retry-failed": { text: "run cells again that have failed before" },
  run: { text: "run tasks; --no-run leaves them to workers on the same store" },
};
