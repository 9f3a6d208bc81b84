import { Writable } from "node:stream";

/** The standard output for a protocol alone: what a config or a tool prints goes to standard error. */
export function claimOutput(): Writable {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
  const output = new Writable({ write: (chunk, _, done) => void write(chunk, done) });
  stdout.on("error", (error) => output.destroy(error));
  return output;
}
