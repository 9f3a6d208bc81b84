import { serveMcpStdio } from "../app/index.ts";
import type { Arguments } from "./arguments.ts";
import { claimOutput } from "./claim-output.ts";
import { loadProject } from "./config.ts";
import type { Console } from "./console.ts";

/** `rivulet mcp`: serves the agents over MCP to the program that has started this one, until it closes the pipe. */
export async function serveMcp({ operands, flags }: Arguments, console: Console): Promise<number> {
  const [config = flags.config] = operands;
  const output = claimOutput();
  const project = await loadProject(
    config === undefined ? flags : { ...flags, config },
    console.env,
  );
  const { agents, store } = project;
  const { mcp = {}, limits = {} } = project.options;
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.once(signal, () => stop.abort());
  const streams = { input: process.stdin, output, signal: stop.signal };
  await serveMcpStdio({ agents, store, mcp, limits }, streams);
  process.stdin.destroy();
  await store.close();
  return 0;
}
