import { encodeComment, encodeRetry } from "../../src/protocol/sse.ts";
import { encodeSse, type StreamFrame } from "../../src/protocol.ts";
import { added, begin, delta, end, message, numbered, withChild } from "./events.ts";
import { type Kit, options } from "./kit.ts";

const frames = numbered(
  ...begin,
  added(0, message()),
  delta("naïve 漢字 👩‍🚀"),
  delta("\u2028."),
  end,
);
const lines = frames.map((frame) => encodeSse(frame as unknown as StreamFrame));
const stream = lines.join("");

/** Splits bytes into chunks of a size. */
function split(text: string, size: number): string[] {
  const bytes = Buffer.from(text, "utf8");
  const count = Math.ceil(bytes.length / size);
  return Array.from({ length: count }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size).toString("base64"),
  );
}

/** Adds the vectors about server-sent events: bytes in chunks instead of frames. */
export function addTransport(kit: Kit): void {
  const add = (title: string, about: string, text: string, size = 1_000_000) =>
    kit.add("transport", title, { about, chunks: split(text, size), options: options("partial") });
  add("whole", "One chunk.", stream);
  add("bytes", "Every byte is a chunk of its own: characters and lines are split.", stream, 1);
  add("sevens", "Chunks of seven bytes.", stream, 7);
  add("crlf", "Lines may end with CR LF.", stream.replaceAll("\n", "\r\n"), 11);
  add("cr", "Lines may end with CR.", stream.replaceAll("\n", "\r"), 11);
  add("bom", "A byte order mark at the start is skipped.", `\uFEFF${stream}`, 2);
  const noise = [
    encodeRetry(1500),
    encodeComment("stream-open"),
    encodeComment("hb 1763236815000"),
  ];
  add(
    "comments",
    "Comments, retry and unknown fields change nothing.",
    [...noise, lines[0], ": hb\n\n", "event: ping\n\n", "color: blue\n\n", ...lines.slice(1)].join(
      "",
    ),
  );
  add(
    "no-space",
    "The space after a colon is optional, and only one is removed.",
    stream.replaceAll(": {", ":{"),
  );
  const [first = "", ...rest] = lines;
  add(
    "data-lines",
    "Several data lines of one frame are joined by line ends.",
    [first.replace('"task_id"', '\ndata: "task_id"'), ...rest].join(""),
  );
  add(
    "malformed",
    "A frame that is not a JSON object with a type is skipped.",
    [
      first,
      "data: not json\n\n",
      "data: [1]\n\n",
      'data: {"task_id":"task_r"}\n\n',
      "data: null\n\n",
      "data\n\n",
      ...rest,
    ].join(""),
  );
  add(
    "incomplete",
    "A frame without its blank line at the end of the connection is dropped.",
    stream.slice(0, -1),
  );
  add("unnamed", "Frames may come without an event line.", stream.replaceAll(/^event: .*\n/gm, ""));
  const nested = numbered(...withChild).map((frame) => encodeSse(frame as unknown as StreamFrame));
  add("nested", "A run with a child in chunks of 64 bytes.", nested.join(""), 64);
}
