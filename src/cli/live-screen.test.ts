import xterm from "@xterm/headless";
import fc from "fast-check";
import { expect, it } from "vitest";
import { openScreen } from "./live-screen.ts";

/** A terminal model and a screen on it. */
function world(columns: number, rows: number) {
  const terminal = new xterm.Terminal({ cols: columns, rows, allowProposedApi: true });
  const device = {
    get columns() {
      return terminal.cols;
    },
    get rows() {
      return terminal.rows;
    },
    write: (text: string) => terminal.write(text),
  };
  const screen = openScreen(device, (_, text) => text);
  const lines = async () => {
    await new Promise<void>((resolve) => terminal.write("", resolve));
    const { active } = terminal.buffer;
    const all = Array.from({ length: active.length }, (_, index) =>
      (active.getLine(index)?.translateToString(true) ?? "").trimEnd(),
    );
    return all.slice(0, all.findLastIndex((line) => line !== "") + 1);
  };
  return { terminal, screen, lines };
}

it("keeps the last column of full lines, printed and painted", async () => {
  const { screen, lines } = world(20, 10);
  const full = `${"x".repeat(19)}|`;
  screen.paint([full, "below"], { row: 1, column: 5 });
  screen.print([full]);
  screen.paint([full, full]);
  expect(await lines()).toEqual([full, full, full]);
});

it("shows what was printed and the last frame, and nothing else, after any changes", async () => {
  const row = fc.integer({ min: 1, max: 20 }).map((size) => "y".repeat(size));
  const frame = fc.array(row, { minLength: 1, maxLength: 6 });
  const step = fc.oneof(
    fc.record({ print: fc.array(row, { maxLength: 4 }) }),
    fc.record({ paint: frame, at: fc.nat(5) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const { screen, lines } = world(20, 8);
      const printed: string[] = [];
      let last: readonly string[] = [];
      for (const change of steps) {
        if ("print" in change) {
          screen.print(change.print);
          printed.push(...change.print);
        } else {
          last = change.paint;
          const cursor = change.at < last.length ? { row: change.at, column: 3 } : undefined;
          screen.paint(last, cursor);
        }
      }
      expect(await lines()).toEqual([...printed, ...last]);
      screen.close();
      expect(await lines()).toEqual(printed);
    }),
    { numRuns: 60 },
  );
});

it.each([12, 40])(
  "repaints in place after the terminal becomes %i columns wide",
  async (columns) => {
    const { terminal, screen, lines } = world(20, 10);
    screen.print(["stays"]);
    screen.paint(["a".repeat(20), "b".repeat(15), "> text"], { row: 2, column: 6 });
    await lines();
    terminal.resize(columns, 10);
    screen.resized();
    screen.paint(["new", "> text"], { row: 1, column: 6 });
    expect(await lines()).toEqual(["stays", "new", "> text"]);
  },
);

it("paints the end of a frame that is taller than the screen", async () => {
  const { screen, lines } = world(20, 5);
  screen.print(["above"]);
  screen.paint(Array.from({ length: 9 }, (_, index) => `row ${index}`));
  screen.paint(["done"]);
  expect(await lines()).toEqual(["above", "done"]);
});
