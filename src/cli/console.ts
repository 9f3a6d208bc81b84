import { styleText } from "node:util";
import type { Canvas } from "./render.ts";

/** The process as the commands see it. */
export interface Console {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The path of this program. */
  readonly program: string;
  /** Whether input and output are a terminal. */
  readonly isTerminal: boolean;
  readonly canvas: Canvas;
  /** Writes a line of output. */
  print(line: string): void;
  /** Writes a line that is not output, such as a hint. */
  note(line: string): void;
  /** Shows a warning of this process; a live screen replaces it, because other output would break the screen. */
  showWarning: (text: string) => void;
  /** Called when the reader of the output has closed the pipe, as in `rivulet tasks | head -1`. */
  onOutputClosed: () => void;
}

/** The console of this process. */
export function openConsole(): Console {
  const { stdin, stdout, stderr, env, argv } = process;
  const isTerminal = stdout.isTTY === true && stdin.isTTY === true && env.TERM !== "dumb";
  const console: Console = {
    ...{ env, isTerminal, program: argv[1] ?? "" },
    canvas: {
      get columns() {
        return stdout.isTTY ? stdout.columns || 80 : 100;
      },
      style: (look, text) => (text === "" ? "" : styleText(look, text, { stream: stdout })),
    },
    print: (line) => void stdout.write(`${line}\n`),
    note: (line) => void (isTerminal ? stdout : stderr).write(`${line}\n`),
    showWarning: (text) => void stderr.write(`rivulet: ${text}\n`),
    onOutputClosed: () => process.exit(0),
  };
  // Node's own listener prints the process id, and on Node 22 it warns that SQLite is experimental.
  process.removeAllListeners("warning");
  process.on("warning", ({ name, message }) => {
    if (name !== "ExperimentalWarning") console.showWarning(message);
  });
  stderr.on("error", () => {});
  stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") console.onOutputClosed();
    else process.exit(1);
  });
  return console;
}
