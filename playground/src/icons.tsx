import { type Shape, shapeNames } from "./state/agents.ts";

const shapes: Readonly<Record<Shape, React.ReactNode>> = {
  run: (
    <>
      <circle className="halo" cx="8" cy="8" r="6.5" fill="none" strokeWidth="1.5" opacity=".5" />
      <circle cx="8" cy="8" r="3.6" fill="currentColor" stroke="none" />
    </>
  ),
  idle: <circle cx="8" cy="8" r="4.6" fill="none" strokeWidth="2" />,
  queued: <circle cx="8" cy="8" r="4.6" fill="none" strokeWidth="1.6" strokeDasharray="1.6 2.2" />,
  ask: (
    <>
      <path d="M8 .8 15.2 8 8 15.2.8 8z" fill="currentColor" stroke="none" />
      <path d="M8 4.6v4.2M8 10.6v.8" stroke="#1b1405" strokeWidth="1.7" />
    </>
  ),
  done: <path d="M3.2 8.4 6.6 11.8 13 4.6" fill="none" strokeWidth="2.1" />,
  fail: (
    <>
      <rect x="2" y="2" width="12" height="12" rx="2" fill="currentColor" stroke="none" />
      <path className="on-fill" d="m5.4 5.4 5.2 5.2m0-5.2-5.2 5.2" strokeWidth="1.8" />
    </>
  ),
  off: (
    <>
      <circle cx="8" cy="8" r="5.4" fill="none" strokeWidth="1.8" />
      <path d="m4.4 11.6 7.2-7.2" strokeWidth="1.8" />
    </>
  ),
  part: (
    <>
      <circle cx="8" cy="8" r="5.4" fill="none" strokeWidth="1.8" />
      <path d="M8 2.6a5.4 5.4 0 0 0 0 10.8z" fill="currentColor" stroke="none" />
    </>
  ),
  hold: (
    <path d="M8 2.6a5.4 5.4 0 0 1 5.4 5.4M8 13.4A5.4 5.4 0 0 1 2.6 8" fill="none" strokeWidth="2" />
  ),
};

/** The state of an agent as a shape; colour only repeats it. */
export function Status({ shape }: { readonly shape: Shape }) {
  return (
    <svg className={`st ${shape}`} viewBox="0 0 16 16" role="img" aria-label={shapeNames[shape]}>
      <g stroke="currentColor" strokeLinecap="round" strokeLinejoin="round">
        {shapes[shape]}
      </g>
    </svg>
  );
}

const icons = {
  tool: "M3 5l3 3-3 3M8.5 11H13",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  focus: "M2 5V2h3M11 2h3v3M14 11v3h-3M5 14H2v-3",
  steer: "M3 13V8a3 3 0 0 1 3-3h7M10 2l3 3-3 3",
  stop: "M4 4h8v8H4z",
  time: "M2 4h6M5 8h7M9 12h5",
  share: "M8 10V2M5 5l3-3 3 3M3 9v5h10V9",
  kill: "M8 2v5M4.5 4.2a5.2 5.2 0 1 0 7 0",
  find: "M7 2.5a4.5 4.5 0 1 1 0 9 4.500 4.500 0 0 1 0-9zM10.5 10.5 14 14",
  folder: "M2 4h4l1.5 2H14v7H2z",
  chip: "M4.5 4.5h7v7h-7zM6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5M11.5 6.5H14M11.5 9.5H14",
  arrow: "M3 8h10M9 4l4 4-4 4",
  menu: "M2 4h12M2 8h12M2 12h12",
  collapse: "M5 2l3 3 3-3M5 14l3-3 3 3M2 8h12",
  fork: "M5 2v12M5 5c0 4 6 2 6 6v3",
  copy: "M5.5 5.5H13V14H5.5zM3 10.5V2h7.5",
  first: "M4 3v10M13 3 7 8l6 5z",
  back: "M11 3 5 8l6 5z",
  play: "M4.5 2.5 13 8l-8.5 5.5z",
  pause: "M5 3v10M11 3v10",
  step: "M5 3l6 5-6 5z",
  plus: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  sun: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500z",
  trash: "M3 4.500h10M6 4.500V3h4v1.500M4.500 4.500 5 13.500h6l.5-9",
  clip: "M12.500 7.500 7.500 12.500a3 3 0 0 1-4.500-4.500l5.500-5.500a2 2 0 0 1 3 3L6 11",
  down: "M8 3v10M4 9l4 4 4-4",
} as const;
const filled = new Set<string>(["stop", "play"]);

/** A picture beside words; it says nothing by itself. */
export function Icon({ name }: { readonly name: keyof typeof icons }) {
  return (
    <svg className="i" viewBox="0 0 16 16" aria-hidden="true">
      <path
        d={icons[name]}
        fill={filled.has(name) ? "currentColor" : "none"}
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}

/** The mark of the project: a branch that leaves a stream. */
export function Mark() {
  return (
    <svg viewBox="0 0 20 20" aria-hidden="true">
      <path
        d="M6 2v16M6 6c0 5 8 2.5 8 8v4"
        fill="none"
        stroke="currentColor"
        strokeWidth="2"
        strokeLinecap="round"
      />
    </svg>
  );
}
