import { Readable, Writable } from "node:stream";
import { type AcpStreams, loadAcp } from "../adapters/index.ts";
import type { Agent } from "../contract/index.ts";
import { HarnessAgent, harnessBehind, taskRunner } from "../harness/index.ts";
import type { Arguments } from "./arguments.ts";
import { claimOutput } from "./claim-output.ts";
import { loadProject } from "./config.ts";
import type { Console } from "./console.ts";
import { packageVersion } from "./package-root.ts";
import { agentNamed } from "./run.ts";

/** `rivulet acp`: serves the agents of a project to an editor on standard input and output. */
export async function serveEditor({ flags }: Arguments, console: Console): Promise<number> {
  const output = claimOutput();
  const { serveAcp } = await loadAcp();
  const project = await loadProject(flags, console.env);
  const { agents, store } = project;
  const first = agentNamed(project, flags.agent);
  const window = contextWindowOf(first);
  const runner = taskRunner({ agents });
  try {
    await serveAcp(
      {
        ...{ agents: [first, ...agents.filter((agent) => agent !== first)], store },
        ...{ cwd: process.cwd(), version: packageVersion() },
        ...(flags.user !== undefined && { userId: flags.user }),
        ...(window !== undefined && { contextWindow: window }),
        note: (line) => console.note(`rivulet: ${line}`),
      },
      standardStreams(output),
    );
  } finally {
    // Turns that run stop at their last step; the next process that loads their session continues them.
    await runner.shutDown();
    for (const agent of agents) if (agent instanceof HarnessAgent) await agent.close();
    await store.close();
  }
  return 0;
}

/** The context window that the settings of an agent name. */
function contextWindowOf(agent: Agent): number | undefined {
  const compaction = harnessBehind(agent)?.options.compaction;
  return typeof compaction === "object" && "window" in compaction ? compaction.window : undefined;
}

/** The streams of this process, which stays alive until the editor closes its standard input or a signal ends it. */
function standardStreams(claimed: Writable): AcpStreams {
  const { stdin } = process;
  const leave = () => void stdin.destroy();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, leave);
  claimed.once("error", leave); // the editor is gone
  const input = Readable.toWeb(stdin) as ReadableStream<Uint8Array>;
  return { input, output: Writable.toWeb(claimed) };
}
