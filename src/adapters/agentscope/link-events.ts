import type { ForeignTask } from "../foreign-task.ts";

/** An event of the AgentScope task protocol, as far as a reader trusts it: every field may be missing or wrong. */
export interface RemoteEvent {
  readonly type: string;
  readonly seq?: unknown;
  readonly text?: unknown;
  readonly toolCallId?: unknown;
  readonly toolName?: unknown;
  readonly toolInput?: unknown;
  readonly status?: unknown;
}

/** Whether an event is the last one of the task. */
export function isLast({ type, status }: RemoteEvent): boolean {
  return type === "RUN_ERROR" || (type === "STATUS" && status !== "running");
}

/** What a result says about its call. */
const states: Readonly<Record<string, "completed" | "failed" | "cancelled">> = {
  success: "completed",
  interrupted: "cancelled",
  error: "failed",
  denied: "failed",
};

/**
 * Adds the events of one stream to a task. A stream that is opened again begins with the last item, so that the reader
 * finds its place in it: numbers of events are not kept, but each item is named after its first one.
 */
export class AgentScopeReader {
  readonly #task: ForeignTask;
  /** The number of the last event. */
  #seq = 0;
  /** How many characters of the next text are known already. */
  #known = 0;
  /** The number that the stream must begin with. */
  #from = 0;
  #isGapless = true;

  constructor(task: ForeignTask) {
    this.#task = task;
    this.reopen();
  }

  /** Finds the place from which a new connection must read. */
  reopen(): void {
    const last = this.#task.items.findLast(({ id }) => /_\d+$/.test(id));
    const seq = Number(/_(\d+)$/.exec(last?.id ?? "")?.[1] ?? 0);
    const isText = last?.type === "message" || last?.type === "reasoning";
    this.#from = seq;
    this.#seq = Math.max(0, seq - 1);
    this.#known = isText ? last.parts.reduce((sum, { text }) => sum + text.length, 0) : 0;
    // A message is discarded only for the result, which has the text.
    if (last?.type === "discarded") this.#known = Number.POSITIVE_INFINITY;
    this.#isGapless = true;
  }

  /** The number of the last event that is not needed again. */
  get fromSeq(): number {
    return this.#seq;
  }

  take(event: RemoteEvent): void {
    const seq = typeof event.seq === "number" && event.seq > this.#seq ? event.seq : this.#seq + 1;
    if (typeof event.seq === "number" && event.seq <= this.#seq) return;
    // The server keeps a limited number of events: what it has dropped is in the result.
    if (this.#isGapless && this.#from > 0 && seq > this.#from && this.#known > 0) {
      this.#known = 0;
      this.#task.closeText();
    }
    this.#isGapless = false;
    this.#seq = seq;
    const callId = textIn(event.toolCallId).slice(0, 128);
    const name = textIn(event.toolName).slice(0, 128) || "tool";
    switch (event.type) {
      case "TEXT_DELTA":
        this.#say("message", textIn(event.text));
        break;
      case "THINKING_DELTA":
        this.#say("reasoning", textIn(event.text));
        break;
      case "TOOL_CALL_START":
        if (callId !== "") this.#task.call(String(seq), callId, name);
        break;
      case "TOOL_CALL_END":
        this.#task.endCall(callId, textIn(event.toolInput) || undefined);
        break;
      case "TOOL_RESULT":
        this.#result(event, callId, name);
        break;
    }
  }

  #say(type: "message" | "reasoning", text: string): void {
    const fresh = text.slice(this.#known);
    this.#known = Math.max(0, this.#known - text.length);
    this.#task.say(type, String(this.#seq), "", fresh);
  }

  #result(event: RemoteEvent, callId: string, name: string): void {
    if (callId === "") return;
    const task = this.#task;
    task.call(String(this.#seq), callId, name);
    task.endCall(callId, undefined);
    const word = textIn(event.status).toLowerCase();
    const status = states[word] ?? "completed";
    const text = textIn(event.text);
    task.print(callId, text);
    const message = text || `The call ended as ${word}.`;
    const error = { code: word === "denied" ? "denied" : "tool_error", message, retryable: false };
    task.endResult(callId, status, status === "failed" ? error : undefined);
  }

  /** The result of the task is its last message, whatever the stream has shown of it. */
  conclude(result: string): void {
    const task = this.#task;
    const last = task.lastMessage;
    const shown = last?.parts.map(({ text, held }) => text + held).join("") ?? "";
    if (result === "" || result === shown) return;
    const isContinued = last?.isOpen && result.startsWith(shown);
    if (last?.isOpen && !isContinued) task.discard();
    if (!last?.isOpen) task.closeText();
    task.say("message", "result", "", isContinued ? result.slice(shown.length) : result);
  }
}

function textIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}
