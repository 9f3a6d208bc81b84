import { type Arguments, numberFlag } from "./arguments.ts";
import { demoBackend, localBackend } from "./backend.ts";
import { chat } from "./chat.ts";
import { loadProject, offlineLines } from "./config.ts";
import type { Console } from "./console.ts";
import { newSessionId, resumeCommand } from "./outcome.ts";
import { agentNamed, runOnce } from "./run.ts";
import { sampleQuestion } from "./sample-team.ts";
import { serveDemo, serveProject, superviseDemo } from "./serve.ts";

/** `rivulet`: a chat with an agent of the project, or with the sample team. */
export async function startChat({ flags }: Arguments, console: Console): Promise<number> {
  const project = await loadProject(flags, console.env);
  const agent = agentNamed(project, flags.agent);
  const sessionId = flags.session ?? newSessionId();
  const { workspace } = flags;
  const welcome =
    project.path === undefined
      ? [
          `The sample team answers from ${workspace ?? "15 articles about rivers"}. Create your own agents with: rivulet init`,
          ...(workspace === undefined ? [`Ask something, such as: ${sampleQuestion}`] : []),
        ]
      : [];
  return chat({
    ...{ console, sessionId, backend: localBackend(project, agent) },
    resume: (id) => resumeCommand(flags, console.env, id),
    modelLines: [...welcome, ...project.modelLines],
    ...(flags.yes && { yes: true }),
    continues: flags.session !== undefined,
  });
}

/** `rivulet serve`: a server for a config, or the demo in the browser or in this terminal. */
export async function startServe(args: Arguments, console: Console): Promise<number> {
  const { operands, flags } = args;
  if (!flags.demo) return serveProject(args, console);
  const question = operands.join(" ").trim();
  if (question !== "") return runOnce(args, console);
  if (!flags.terminal && !flags.json && !flags.quiet) return serveDemo(args, console);
  // Without a person at the terminal, the demo asks its own question.
  if (!console.isTerminal) return runOnce({ ...args, operands: [sampleQuestion] }, console);
  const port = numberFlag("port", flags.port, 65_535) ?? 0;
  let onRestart = (_: number) => {};
  const supervisor = await superviseDemo(console, flags, port, (ms) => onRestart(ms));
  const sessionId = flags.session ?? newSessionId();
  const lines =
    flags.model === undefined && !console.env.RIVULET_MODEL ? offlineLines(console.env) : [];
  return chat({
    ...{ console, sessionId, backend: demoBackend(supervisor) },
    resume: (id) => resumeCommand(flags, console.env, id),
    modelLines: [
      ...lines,
      `Ask something, such as: ${sampleQuestion}`,
      "While the agents write, type /kill: the server process dies and comes back.",
    ],
    continues: flags.session !== undefined,
    onChat: (here) => {
      onRestart = (ms) =>
        here.print(
          `The server is back after ${(ms / 1_000).toFixed(1)} s. Every agent continues where it was.`,
        );
    },
  });
}
