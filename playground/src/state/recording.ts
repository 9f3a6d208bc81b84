import { type LogEvent, protocolVersion, RivuletError } from "rivulet/protocol";
import { RunLog } from "./run-log.ts";
import { announce, setUi } from "./ui.ts";

/** The first line of a file: the frame that opens a stream, with the question. */
interface Header {
  readonly type: "stream.opened";
  readonly protocol: string;
  readonly root_task_id: string;
  readonly oldest_sequence_number: number;
  readonly last_sequence_number: number;
  readonly heartbeat_ms: number;
  readonly input?: string;
}

/** A run as one file: the frame that opens its stream, then one event per line. */
async function recordingOf(log: RunLog): Promise<Blob> {
  await log.loadHistory();
  const { last } = log.getSnapshot();
  const header: Header = {
    type: "stream.opened",
    protocol: protocolVersion,
    root_task_id: log.taskId,
    oldest_sequence_number: 0,
    last_sequence_number: last,
    heartbeat_ms: 15_000,
    input: log.input,
  };
  const lines = [header, ...log.events].map((line) => `${JSON.stringify(line)}\n`);
  return new Blob(lines, { type: "application/x-ndjson" });
}

/** Saves a run as a file. */
export async function share(log: RunLog): Promise<void> {
  const url = URL.createObjectURL(await recordingOf(log));
  const link = document.createElement("a");
  const words = log.input.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ["run"];
  link.href = url;
  link.download = `${words.slice(0, 8).join("-").slice(0, 60)}.run.jsonl`;
  link.click();
  const done = `The run is saved as ${link.download}. Drop the file on this page to replay it.`;
  setUi({ notice: { text: done, isError: false } });
  announce(done);
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Reads a file of `share`, or any file with one event per line. */
export async function readRecording(file: File): Promise<RunLog> {
  const lines = (await file.text()).split("\n");
  let input = "";
  const events: LogEvent[] = [];
  lines.forEach((line, index) => {
    if (line.trim() === "") return;
    const frame = parse(file.name, line, index + 1);
    if (frame.type === "stream.opened" && typeof frame.input === "string") input = frame.input;
    if (!isLogEvent(frame)) return;
    if (frame.sequence_number !== events.length)
      throw invalid(`${file.name}:${index + 1} is not event ${events.length} of its log.`);
    events.push(frame);
  });
  const [first] = events;
  if (first === undefined) throw invalid(`${file.name} contains no events.`);
  const { task_id: taskId, created_at: startedAt } = first;
  return new RunLog({ taskId, input, startedAt, events });
}

function isLogEvent(frame: { readonly type?: unknown }): frame is LogEvent {
  if (typeof frame.type !== "string" || !frame.type.startsWith("task.")) return false;
  const { sequence_number, task_id, created_at } = frame as Partial<LogEvent>;
  return (
    typeof sequence_number === "number" &&
    typeof task_id === "string" &&
    typeof created_at === "number"
  );
}

function parse(name: string, line: string, number: number): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // The error below names the line.
  }
  throw invalid(`${name}:${number} is not a line of JSON.`);
}

function invalid(message: string): RivuletError {
  return new RivuletError("recording_invalid", message, {
    hint: "Drop a file that Share has saved, or one event per line.",
  });
}
