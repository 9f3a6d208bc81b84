// Records the demo in a real terminal and writes docs/images/terminal.svg: npm run generate:terminal
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openTerminal, type StyledCell } from "../test/cli/support/terminal.ts";

const [columns, rows] = [96, 24];
const [cellWidth, lineHeight, padding] = [8.4, 18, 16];

/** The colours that the program uses, by their number in the palette of a terminal. */
const palette: Readonly<Record<number, string>> = {
  1: "#e06c75",
  2: "#8cc265",
  3: "#e5c07b",
  6: "#4db6ac",
};

async function record(): Promise<readonly (readonly StyledCell[])[]> {
  const cwd = mkdtempSync(join(tmpdir(), "rivulet-record-"));
  const program = [process.execPath, resolve("src/cli/main.ts"), "serve", "--demo", "--terminal"];
  const terminal = openTerminal(columns, rows, [...program, "--session", "deltas"], { cwd });
  await terminal.shows("Enter sends");
  terminal.type("How do river deltas form, and why are many of them shrinking?\r");
  await terminal.shows(/● +critic/);
  terminal.type("/kill\r");
  await terminal.shows("is back after");
  await terminal.shows(/● +writer +.*meets/);
  const cells = terminal.cells();
  terminal.type("\x03\x03");
  await terminal.ended;
  rmSync(cwd, { recursive: true, force: true });
  return cells;
}

function toSvg(lines: readonly (readonly StyledCell[])[]): string {
  const last = lines.findLastIndex((line) => line.some(({ text }) => text.trim() !== ""));
  const [width, height] = [
    columns * cellWidth + 2 * padding,
    (last + 1) * lineHeight + 2 * padding,
  ];
  const body = lines.slice(0, last + 1).flatMap((line, row) =>
    line
      .filter(({ text }) => text.trim() !== "")
      .map(({ text, column, color, isBold, isDim }) => {
        const fill = isDim
          ? "#8a94a6"
          : ((color === undefined ? undefined : palette[color]) ?? "#e6e9ef");
        const x = (padding + column * cellWidth).toFixed(1);
        const size = ` textLength="${(text.length * cellWidth).toFixed(1)}"`;
        return `<text x="${x}" y="${padding + 13 + row * lineHeight}" fill="${fill}"${isBold ? ' font-weight="bold"' : ""}${size} xml:space="preserve">${escapeXml(text)}</text>`;
      }),
  );
  const title = "A team of agents in the terminal, after its server process was killed";
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width.toFixed(0)}" height="${height}" viewBox="0 0 ${width.toFixed(0)} ${height}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" role="img" aria-label="${title}">
<rect width="100%" height="100%" rx="8" fill="#14181f"/>
${body.join("\n")}
</svg>
`;
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

mkdirSync("docs/images", { recursive: true });
writeFileSync("docs/images/terminal.svg", toSvg(await record()));
console.log("docs/images/terminal.svg");
