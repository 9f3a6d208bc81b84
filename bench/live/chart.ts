/** A bar of a chart. */
export interface Bar {
  readonly label: string;
  readonly value: number;
  /** Whether it is Rivulet's. */
  readonly isOurs: boolean;
}

const width = 640;
const barHeight = 22;
const gap = 8;
const labelWidth = 220;
const valueWidth = 70;

/** A chart of horizontal bars as an SVG file, readable on light and dark pages. */
export function chartOf(title: string, unit: string, bars: readonly Bar[]): string {
  const most = Math.max(...bars.map(({ value }) => value));
  const room = width - labelWidth - valueWidth;
  const height = 40 + bars.length * (barHeight + gap);
  const rows = bars.map(({ label, value, isOurs }, index) => {
    const y = 36 + index * (barHeight + gap);
    const length = Math.max(2, Math.round((room * value) / most));
    const middle = y + barHeight / 2 + 5;
    return [
      `<text x="${labelWidth - 10}" y="${middle}" text-anchor="end">${label}</text>`,
      `<rect x="${labelWidth}" y="${y}" width="${length}" height="${barHeight}" rx="3" fill="${isOurs ? "#2f81f7" : "#8b949e"}"/>`,
      `<text x="${labelWidth + length + 8}" y="${middle}">${shown(value)} ${unit}</text>`,
    ].join("\n");
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}">`,
    "<style>text { font: 13px system-ui, sans-serif; fill: #6e7781 } .title { font-weight: 600 }</style>",
    `<text class="title" x="10" y="20">${title}</text>`,
    ...rows,
    "</svg>",
    "",
  ].join("\n");
}

/** A number with as many digits as it means. */
export function shown(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(0) : value.toFixed(1);
}
