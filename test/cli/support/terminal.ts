import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import type { Writable } from "node:stream";
import xterm from "@xterm/headless";

/** Characters of one row with the same style. */
export interface StyledCell {
  readonly text: string;
  readonly column: number;
  /** The number in the palette of the terminal; undefined for the default colour. */
  readonly color: number | undefined;
  readonly isBold: boolean;
  readonly isDim: boolean;
}

/** A program in a pseudo-terminal, and the screen that a person sees. */
export interface TestTerminal {
  /** The rows of the screen, without spaces at their ends. */
  screen(): readonly string[];
  /** All rows, with those that have scrolled off the screen. */
  scrollback(): readonly string[];
  /** The rows of the screen with their styles. */
  cells(): readonly (readonly StyledCell[])[];
  type(keys: string): void;
  /** Changes the size after the next frame: no program can know the new size of a frame that is on its way. */
  resize(columns: number, rows: number): Promise<void>;
  /** Resolves when the text is on the screen or above it; rejects when the program ends without it. */
  shows(text: string | RegExp | ((lines: readonly string[]) => boolean)): Promise<void>;
  /** Resolves to the exit code. */
  readonly ended: Promise<number>;
  /** Everything that the program wrote. */
  raw(): string;
  kill(): void;
}

const endOfFrame = "\x1b[?2026l";

/** Starts a program in a terminal of this size. */
export function openTerminal(
  columns: number,
  rows: number,
  program: readonly string[],
  options: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> } = {},
): TestTerminal {
  const screen = new xterm.Terminal({
    cols: columns,
    rows,
    scrollback: 10_000,
    allowProposedApi: true,
  });
  const { PATH = "", HOME = "", NODE_COMPILE_CACHE = "" } = process.env;
  const child = spawn(
    "python3",
    [resolve("test/cli/support/pseudo_terminal.py"), String(columns), String(rows), ...program],
    {
      cwd: options.cwd ?? process.cwd(),
      env: { PATH, HOME, NODE_COMPILE_CACHE, TERM: "xterm-256color", ...options.env },
      stdio: ["pipe", "pipe", "inherit", "pipe"],
    },
  ) as ChildProcess & { readonly stdin: Writable };
  let written = "";
  let changed = Promise.withResolvers<void>();
  let isOver = false;
  const change = () => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  child.stdout?.on("data", (data: Buffer) => {
    written += data.toString("latin1");
    screen.write(data, change);
  });
  const ended = new Promise<number>((end) =>
    child.once("close", (code) =>
      screen.write("", () => {
        isOver = true;
        change();
        end(code ?? -1);
      }),
    ),
  );
  const linesOf = (from: number) => {
    const { active } = screen.buffer;
    return Array.from({ length: active.length - from }, (_, index) =>
      (active.getLine(from + index)?.translateToString(true) ?? "").trimEnd(),
    );
  };
  const cellsOf = (row: number) => {
    const line = screen.buffer.active.getLine(screen.buffer.active.baseY + row);
    const cells: StyledCell[] = [];
    for (let column = 0; column < screen.cols; column++) {
      const cell = line?.getCell(column);
      if (cell === undefined || cell.getWidth() === 0) continue;
      const color = cell.isFgDefault() ? undefined : cell.getFgColor();
      const style = { color, isBold: cell.isBold() !== 0, isDim: cell.isDim() !== 0 };
      const text = cell.getChars() || " ";
      const last = cells.at(-1);
      const isSame =
        last !== undefined &&
        last.color === color &&
        last.isBold === style.isBold &&
        last.isDim === style.isDim;
      if (isSame) cells[cells.length - 1] = { ...last, text: last.text + text };
      else cells.push({ text, column, ...style });
    }
    return cells.map((cell) => ({ ...cell, text: cell.text.trimEnd() }));
  };
  const scrollback = () => linesOf(0);
  return {
    screen: () => linesOf(screen.buffer.active.baseY),
    scrollback,
    cells: () => Array.from({ length: screen.rows }, (_, row) => cellsOf(row)),
    type: (keys) => void child.stdin.write(keys),
    async resize(width, height) {
      do await changed.promise;
      while (!written.endsWith(endOfFrame));
      screen.resize(width, height);
      (child.stdio[3] as Writable).write(`${width} ${height}\n`);
    },
    async shows(text) {
      const fits = () => {
        if (typeof text === "function") return text(scrollback());
        // A phrase may be wrapped.
        const all = scrollback().join("\n");
        const flat = all.replace(/\s+/g, " ");
        return typeof text === "string" ? flat.includes(text) : text.test(all) || text.test(flat);
      };
      while (!fits()) {
        if (isOver)
          throw new Error(`The program ended without ${text}:\n${scrollback().join("\n")}`);
        await changed.promise;
      }
    },
    ended,
    raw: () => written,
    kill: () => void child.kill("SIGKILL"),
  };
}
