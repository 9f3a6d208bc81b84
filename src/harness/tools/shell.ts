import { jsonSchema, type ToolContext, ToolFailure, tool } from "../../agent/index.ts";
import { readArgument, readOptions, required } from "../../base/options.ts";
import { type Message, type Tool, textOf } from "../../contract/index.ts";
import { guardFiles, rulesBehind, rulesOnPaths } from "../filesystem/file-rules.ts";
import { type Filesystem, filesystemField } from "../filesystem/filesystem.ts";
import { type IsolationScope, namespaceOf, scopeField } from "../filesystem/path.ts";
import { type CommandResult, jailRoot, type Shell, type StopReason } from "../sandbox/jail.ts";
import { commandAgent } from "./command-agent.ts";

/** The name of the tool that runs commands, and the agent id of its background tasks. */
export const executeName = "execute";

const maxCommand = 100_000; // the system limits one argument to 128 KiB
const emitMs = 100;
const maxParallel = 8;

interface ExecuteInput {
  readonly command: string;
  readonly timeout_seconds?: number;
  readonly background?: boolean;
}

/** Creates the tool that runs commands on the files of a workspace; none if the files cannot execute. */
export function shellTools(
  filesystem: Filesystem,
  options: { readonly scope?: IsolationScope } = {},
): readonly Tool[] {
  readArgument("filesystem", filesystem, required(filesystemField, 'sandboxFilesystem("files")'));
  const { scope = "user" } = readOptions("shellTools()", options, { scope: scopeField });
  return filesystem.shell ? [executeTool(filesystem, filesystem.shell, scope)] : [];
}

function executeTool(filesystem: Filesystem, { jail, limits }: Shell, scope: IsolationScope): Tool {
  const maxSeconds = Math.floor(limits.maxTimeoutMs / 1_000);
  const defaultSeconds = limits.timeoutMs / 1_000;
  return tool({
    name: executeName,
    description: describe(jail),
    input: jsonSchema<ExecuteInput>({
      type: "object",
      properties: {
        command: { type: "string", minLength: 1, maxLength: maxCommand },
        timeout_seconds: {
          type: "integer",
          minimum: 1,
          description: `How long it may run; defaults to ${defaultSeconds}, at most ${maxSeconds} unless it runs in the background.`,
        },
        background: {
          type: "boolean",
          description:
            "Run it in the background, for servers and long jobs. Read its output with task_output and offset, end it with task_cancel.",
        },
      },
      required: ["command"],
      additionalProperties: false,
    }),
    exclusive: true,
    // The command has its own time limit, and is never repeated.
    execution: { timeoutMs: null, maxAttempts: 1 },
    async execute({ command, timeout_seconds: seconds, background = false }, context) {
      const files = filesFor(filesystem, scope, context);
      const { cwd, note } = await directoryFor(files, context.messages);
      const timeoutMs = seconds === undefined ? undefined : seconds * 1_000;
      const asked = { cwd, ...(timeoutMs !== undefined && { timeoutMs }) };
      if (background) return runInBackground(files, command, asked, context);
      const stream = emitter(context);
      const result = await shellOf(files).run(command, {
        ...asked,
        signal: context.signal,
        onOutput: stream.add,
      });
      stream.end(result);
      const report = reportOf(result, note);
      if (result.stoppedBy === undefined) return report;
      throw new ToolFailure("command_stopped", report);
    },
  });
}

function describe(jail: Shell["jail"]): string {
  const common = `Runs a shell command in the workspace, which is ${jailRoot}. It sees the same files as the file tools. The working directory is kept between calls; variables are not.`;
  if (jail !== "just-bash") return common;
  return `${common} The shell is a simulated bash with the usual text and file utilities; it cannot run other programs.`;
}

function filesFor(filesystem: Filesystem, scope: IsolationScope, context: ToolContext): Filesystem {
  const { userId, sessionId, agent } = context;
  const namespace = namespaceOf(scope, { userId, sessionId, agentId: agent.agentId });
  const files = namespace ? filesystem.within(namespace) : filesystem;
  return guardFiles(files, rulesOnPaths(rulesBehind(context)));
}

function shellOf({ shell }: Filesystem): Shell {
  if (shell) return shell;
  throw new ToolFailure("no_sandbox", "Commands cannot be run here.");
}

async function runInBackground(
  files: Filesystem,
  command: string,
  options: { readonly cwd: string; readonly timeoutMs?: number },
  context: ToolContext,
) {
  const agent = commandAgent(async (child) => {
    const stream = emitter(child);
    const result = await shellOf(files).run(command, {
      ...options,
      background: true,
      signal: child.signal,
      onOutput: stream.add,
    });
    stream.end(result);
    return reportOf(result);
  });
  const { taskId, status } = await context.runChild(agent, command, {
    agentId: executeName,
    mode: "background",
    maxParallel,
  });
  const state = status === "queued" ? "queued" : "running";
  return `task_id: ${taskId}\nstatus: ${state}\nRead its output with task_output and offset 0.`;
}

/** The agent of a background command whose process is gone: it can only report that. */
export function lostCommandAgent() {
  return commandAgent(async () => {
    throw new ToolFailure("executor_lost", "The process that ran the command is gone.");
  });
}

/** Joins chunks that arrive shortly after each other, because each emitted chunk is an event. */
function emitter({ emit }: Pick<ToolContext, "emit">) {
  let text = "";
  let timer: NodeJS.Timeout | undefined;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    if (text !== "") emit(text);
    text = "";
  };
  return {
    add(chunk: string) {
      text += chunk;
      timer ??= setTimeout(flush, emitMs);
    },
    end({ exitCode, stoppedBy, omittedBytes }: CommandResult) {
      const failure = stoppedBy ? stopTexts[stoppedBy] : exitCode ? `exit code ${exitCode}` : "";
      const notes = [omittedBytes > 0 ? `${omittedBytes} more bytes` : "", failure];
      for (const note of notes) if (note !== "") text += `\n[${note}]`;
      flush();
    },
  };
}

const stopTexts: Readonly<Record<StopReason, string>> = {
  timeout: "stopped because its time was over",
  cancel: "cancelled",
  memory: "stopped because it used too much memory",
  disk: "stopped because the disk is almost full",
  workspace:
    "stopped because it wrote too much to the workspace, and the files that it created were removed",
  output: "stopped because it wrote too much output",
  control: "stopped because a file that steers the agent was replaced meanwhile",
};

const directoryLine = /^(?:exit_code|stopped): [^\n]*\ndirectory: ([^\n]*)\n/m;

function reportOf({ exitCode, stoppedBy, output, cwd }: CommandResult, note = ""): string {
  const first = stoppedBy
    ? `stopped: the command was ${stopTexts[stoppedBy]}, with all its processes`
    : `exit_code: ${exitCode}`;
  const directory = `${jailRoot}${cwd === "" ? "" : `/${cwd}`}`;
  return `${first}\ndirectory: ${directory}\n${note}\n${output === "" ? "(no output)" : output}`;
}

/** Returns the directory where the last command of the session ended. The transcript keeps it, so no process has to. */
async function directoryFor(
  files: Filesystem,
  messages: readonly Message[],
): Promise<{ readonly cwd: string; readonly note?: string }> {
  const directory = lastDirectory(messages);
  if (directory === undefined) return { cwd: "" };
  try {
    const cwd = files.normalize(directory);
    if (cwd === "" || (await files.stat(cwd))?.type === "directory") return { cwd };
  } catch {
    // The name is one that file tools refuse.
  }
  return { cwd: "", note: `(${directory} cannot be used any more; this ran in ${jailRoot})\n` };
}

function lastDirectory(messages: readonly Message[]): string | undefined {
  for (const { content } of messages.toReversed()) {
    for (const block of content.toReversed()) {
      if (block.type !== "tool_result" || block.name !== executeName) continue;
      const [, directory] = directoryLine.exec(textOf(block.output).slice(0, 10_000)) ?? [];
      if (directory !== undefined) return directory;
    }
  }
  return undefined;
}
