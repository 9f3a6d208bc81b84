import type { Reply, WaitReason } from "../contract/index.ts";
import type { Console } from "./console.ts";
import type { Flags } from "./flags.ts";

/** Exit codes: the outcome of a run. */
export const exitCodes = {
  completed: 0,
  failed: 1,
  usage: 2,
  incomplete: 3,
  cancelled: 130,
} as const;

/** The exit code of a reply. */
export function outcomeOf({ generateReason, approvals }: Reply, signal: AbortSignal): number {
  if (generateReason === "interrupted" || signal.aborted) return exitCodes.cancelled;
  if (approvals.length > 0 || generateReason === "approval_required") return exitCodes.incomplete;
  return generateReason === "model_stop" || generateReason === "structured_output"
    ? exitCodes.completed
    : exitCodes.incomplete;
}

const waitTexts: Readonly<Partial<Record<WaitReason["reason"], string>>> = {
  busy: "waiting for another task of this session",
  unknown_agent: "waiting for a process that has the agent of this task",
  unknown_version: "waiting for a process with the version of the agent that this task stays on",
  unknown_place: "waiting for a process that has the local files of this task",
  user_limit: "waiting for other sessions of the same user",
};

/** Describes the wait of a run for people. */
export function waitText({ reason, leftMs = 0 }: WaitReason): string {
  const text = waitTexts[reason];
  if (text !== undefined) return text;
  const seconds = Math.ceil(leftMs / 1_000);
  return `waiting for the lease of a process that is gone, ${seconds} s left`;
}

/** Writes a line when a run begins to wait for something, and one when it continues. */
export function noteWaits(write: (line: string) => void): (reason: WaitReason | undefined) => void {
  let last: WaitReason["reason"] | undefined;
  return (wait) => {
    if (wait?.reason === last) return;
    write(wait === undefined ? "the wait is over" : waitText(wait));
    last = wait?.reason;
  };
}

/** A new id that a person can type. */
export function newSessionId(): string {
  return crypto.randomUUID().slice(0, 8);
}

const maxCancelMs = 3_000;

/** A signal that aborts when the person ends this process or closes its output; a second time ends it at once. */
export function cancelSignal(console: Console): AbortSignal {
  const controller = new AbortController();
  const cancel = () => {
    if (controller.signal.aborted) process.exit(exitCodes.cancelled);
    controller.abort(new Error("cancelled"));
  };
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, cancel);
  console.onOutputClosed = () => {
    if (controller.signal.aborted) return;
    cancel();
    setTimeout(() => process.exit(exitCodes.cancelled), maxCancelMs).unref();
  };
  return controller.signal;
}

const resumeFlags = ["config", "agent", "model", "workspace"] as const;

/** The command that continues a session, as the user of this process would type it. */
export function resumeCommand(flags: Flags, env: Console["env"], sessionId: string): string {
  const isStart = env.npm_lifecycle_event === "start";
  const program = env.npm_lifecycle_event === "npx" ? "npx rivulet" : "rivulet";
  const demo = isStart ? "npm start -- --terminal" : `${program} serve --demo --terminal`;
  const command = flags.demo ? demo : isStart ? "npm start --" : program;
  const given = { ...flags, session: sessionId };
  return [
    command,
    ...[...resumeFlags, "session" as const].flatMap((name) =>
      given[name] === undefined ? [] : [`--${name} ${quoted(given[name])}`],
    ),
  ].join(" ");
}

function quoted(value: string): string {
  return /^[\w.:/@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
}
