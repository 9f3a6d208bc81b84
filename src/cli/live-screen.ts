import type { WriteStream } from "node:tty";
import type { Canvas } from "./render.ts";
import { widthOf } from "./text.ts";

/** A terminal that can be painted over. */
export interface Device {
  readonly columns: number;
  readonly rows: number;
  write(text: string): void;
}

/** The terminal that a stream writes to. */
export function deviceOf(output: WriteStream): Device {
  return {
    get columns() {
      return Math.max(10, output.columns || 80);
    },
    get rows() {
      return Math.max(4, output.rows || 24);
    },
    write: (text) => void output.write(text),
  };
}

/** A place in the live area. */
export interface Cursor {
  readonly row: number;
  readonly column: number;
}

/** Lines that stay, and below them an area that is painted again with every change. */
export interface LiveScreen extends Canvas {
  readonly rows: number;
  /** Writes lines above the live area, where they stay and scroll. */
  print(lines: readonly string[]): void;
  /** Replaces the live area; no line may be wider than the screen. With a cursor the terminal shows it there. */
  paint(lines: readonly string[], cursor?: Cursor): void;
  /** Paints again after the size of the terminal has changed. */
  resized(): void;
  /** Removes the live area and shows the cursor. */
  close(): void;
}

const [beginUpdate, endUpdate] = ["\x1b[?2026h", "\x1b[?2026l"];
const [hideCursor, showCursor] = ["\x1b[?25l", "\x1b[?25h"];
const eraseBelow = "\r\x1b[J";

/** Opens the screen of a terminal. */
export function openScreen(device: Device, style: Canvas["style"]): LiveScreen {
  let lines: readonly string[] = [];
  let cursor: Cursor | undefined;
  let isClosed = false;

  /** How many rows the cursor is below the first row of the live area, as the terminal shows it now. */
  function depth(): number {
    if (lines.length === 0) return 0;
    const at = cursor?.row ?? lines.length - 1;
    const above = lines.slice(0, at).reduce((sum, line) => sum + rowsOf(line), 0);
    const within = cursor ? Math.floor(cursor.column / device.columns) : rowsOf(lines[at]) - 1;
    return above + within;
  }

  /** A terminal that has become narrower wraps the lines that it shows. */
  function rowsOf(line = ""): number {
    return Math.max(1, Math.ceil(widthOf(line) / device.columns));
  }

  function erase(): string {
    const up = depth();
    return `${up > 0 ? `\x1b[${up}A` : ""}${eraseBelow}`;
  }

  /** Erases before it writes: an erase after a full line would take its last character. */
  function write(stay: readonly string[], next: readonly string[], place?: Cursor): void {
    if (isClosed) return;
    const most = Math.max(1, device.rows - 1);
    const shown = next.slice(-most);
    const printed = stay.map((line) => `${line}\r\n`).join("");
    let text = `${beginUpdate}${hideCursor}${erase()}${printed}${shown.join("\r\n")}`;
    lines = shown;
    const hidden = next.length - shown.length;
    cursor = place && { row: Math.max(0, place.row - hidden), column: place.column };
    if (cursor) {
      const up = shown.length - 1 - cursor.row;
      const right = Math.min(cursor.column, device.columns - 1);
      text += `${up > 0 ? `\x1b[${up}A` : ""}\r${right > 0 ? `\x1b[${right}C` : ""}${showCursor}`;
    }
    device.write(text + endUpdate);
  }

  return {
    get columns() {
      return device.columns;
    },
    get rows() {
      return device.rows;
    },
    style,
    print: (stay) => write(stay, lines, cursor),
    paint: (next, place) => write([], next, place),
    resized() {
      if (!isClosed && lines.length > 0) {
        device.write(erase());
        lines = [];
        cursor = undefined;
      }
    },
    close() {
      if (isClosed) return;
      device.write(`${lines.length > 0 ? erase() : ""}${showCursor}`);
      isClosed = true;
    },
  };
}
