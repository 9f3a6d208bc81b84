import { emitKeypressEvents } from "node:readline";
import type { ReadStream, WriteStream } from "node:tty";
import { editLine, emptyLine, type Key, type Line, layOut, moveByRow } from "./line-editor.ts";
import { deviceOf, type LiveScreen, openScreen } from "./live-screen.ts";
import type { Canvas } from "./render.ts";
import { joinFitting, wrap } from "./text.ts";

/** A terminal with a line to type in, which stays below everything else. */
export interface Interactive {
  readonly screen: LiveScreen;
  /** False after `close`. */
  readonly isOpen: boolean;
  /** Paints again; `status` gives the lines above the input, in at most so many rows. */
  refresh(): void;
  status: (maxRows: number) => readonly string[];
  /** The text before the line that is typed. */
  label: string;
  /** The help below the line; a narrow screen shows the first parts. */
  help: readonly string[];
  /** Empties the line that is typed; returns false if it was empty. */
  clearLine(): boolean;
  /** Called with each line that is entered while nothing is asked. */
  onLine: (text: string) => void;
  /** Called for Ctrl-C, for Ctrl-D on an empty line, and for Tab. */
  onInterrupt: () => void;
  onEnd: () => void;
  onTab: () => void;
  /** Asks for one of these keys; rejects when the signal aborts. */
  askKey(question: string, keys: readonly string[], signal: AbortSignal): Promise<string>;
  /** Asks for a line; undefined after Esc. Rejects when the signal aborts. */
  askLine(question: string, initial: string, signal: AbortSignal): Promise<string | undefined>;
  close(): void;
}

interface Question {
  readonly text: string;
  /** Absent: a line is asked for. */
  readonly keys?: readonly string[];
  readonly answer: (text: string | undefined) => void;
  /** The line before the question, which comes back after it. */
  readonly before: Line;
}

const questionHelp = ["Enter sends", "Esc goes back", "Ctrl-C cancels"];
const [pasteOn, pasteOff] = ["\x1b[?2004h", "\x1b[?2004l"];

/** Takes over a terminal until `close`. */
export function openInteractive(
  input: ReadStream,
  output: WriteStream,
  style: Canvas["style"],
): Interactive {
  const screen = openScreen(deviceOf(output), style);
  let line = emptyLine;
  let question: Question | undefined;
  let isPasting = false;
  let isOpen = true;
  const history: string[] = [];
  let recalled = 0;

  const self: Interactive = {
    screen,
    get isOpen() {
      return isOpen;
    },
    status: () => [],
    label: "> ",
    help: [],
    onLine: () => {},
    onInterrupt: () => {},
    onEnd: () => {},
    onTab: () => {},
    refresh,
    clearLine,
    askKey: async (text, keys, signal) => (await ask(text, "", signal, keys)) ?? "",
    askLine: (text, initial, signal) => ask(text, initial, signal),
    close,
  };

  const labelOf = () => (question ? "> " : self.label);
  const inputWidth = () => Math.max(4, screen.columns - labelOf().length - 1);

  function refresh(): void {
    const { columns, rows } = screen;
    const asked = question ? wrap(question.text, columns).map((row) => style("yellow", row)) : [];
    const isTyping = question?.keys === undefined;
    const label = labelOf();
    const typed = layOut(line, inputWidth());
    const most = Math.max(1, Math.floor(rows / 3));
    const from = Math.max(0, Math.min(typed.row - most + 1, typed.rows.length - most));
    const visible = typed.rows.slice(from, from + most);
    const entry = isTyping
      ? visible.map(
          (row, index) => `${index === 0 && from === 0 ? label : " ".repeat(label.length)}${row}`,
        )
      : [];
    const helpParts = question ? (isTyping ? questionHelp : []) : self.help;
    const help = helpParts.length === 0 ? [] : [style("dim", joinFitting(helpParts, columns))];
    const room = Math.max(0, rows - 1 - asked.length - entry.length - help.length);
    const above = self.status(room);
    const lines = [
      ...above.slice(-room),
      ...asked.slice(-Math.max(1, rows - 2)),
      ...entry,
      ...help,
    ];
    const place = {
      row: lines.length - help.length - entry.length + typed.row - from,
      column: label.length + typed.column,
    };
    screen.paint(lines, isTyping ? place : undefined);
  }

  function ask(
    text: string,
    initial: string,
    signal: AbortSignal,
    keys?: readonly string[],
  ): Promise<string | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
    const onAbort = () => {
      finish();
      reject(signal.reason);
    };
    const finish = () => {
      signal.removeEventListener("abort", onAbort);
      line = question?.before ?? emptyLine;
      question = undefined;
      refresh();
    };
    const answer = (given: string | undefined) => {
      finish();
      resolve(given);
    };
    question = { text, answer, before: line, ...(keys && { keys }) };
    line = { text: initial, at: initial.length };
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort);
    refresh();
    return promise;
  }

  function enter(): void {
    const { text } = line;
    if (question) {
      question.answer(text);
      return;
    }
    line = emptyLine;
    if (text.trim() !== "" && history.at(-1) !== text) history.push(text);
    recalled = history.length;
    refresh();
    if (text.trim() !== "") self.onLine(text);
  }

  function clearLine(): boolean {
    if (line.text === "") return false;
    line = emptyLine;
    recalled = history.length;
    refresh();
    return true;
  }

  function recall(step: number): void {
    recalled = Math.max(0, Math.min(history.length, recalled + step));
    const text = history[recalled] ?? "";
    line = { text, at: text.length };
    refresh();
  }

  /** Moves within a text of several rows; at its first and last row, to the previous and next entry of the history. */
  function moveRow(step: -1 | 1): void {
    const moved = moveByRow(line, inputWidth(), step);
    if (moved === undefined) {
      if (!question) recall(step);
      return;
    }
    line = moved;
    refresh();
  }

  function onKey(text: string | undefined, given: Partial<Key> & { sequence?: string }): void {
    const { name = "", ctrl = false, meta = false } = given;
    if (name === "paste-start" || name === "paste-end") {
      isPasting = name === "paste-start";
      return;
    }
    if (ctrl && name === "c") return void self.onInterrupt();
    if (name === "tab" && !isPasting) return void self.onTab();
    if (question?.keys) {
      const pressed = (text ?? "").toLowerCase();
      if (question.keys.includes(pressed)) question.answer(pressed);
      return;
    }
    const isEnter = name === "return" || name === "enter";
    if (isEnter && !isPasting && !meta) return void enter();
    if (ctrl && name === "d" && line.text === "") return void self.onEnd();
    if (name === "escape" && question) return void question.answer(undefined);
    if (name === "up" || name === "down") return void moveRow(name === "up" ? -1 : 1);
    const typed = isEnter ? "\n" : (text ?? "").replace(/\p{Cc}/gu, name === "tab" ? " " : "");
    const next = editLine(line, { name, ctrl, meta, text: typed });
    if (next === line) return;
    line = next;
    refresh();
  }

  function onResize(): void {
    screen.resized();
    refresh();
  }

  function close(): void {
    isOpen = false;
    input.off("keypress", onKey);
    output.off("resize", onResize);
    screen.close();
    output.write(pasteOff);
    input.setRawMode(false);
    input.pause();
  }

  emitKeypressEvents(input);
  input.setRawMode(true);
  input.resume();
  input.on("keypress", onKey);
  output.on("resize", onResize);
  output.write(pasteOn);
  return self;
}
