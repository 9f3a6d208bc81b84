import type {
  AnswerBlock,
  Block,
  Message,
  SuspensionBlock,
  ToolUseBlock,
} from "../../contract/index.ts";

/** A tool call that has no result yet. */
export interface PendingCall extends Wait {
  readonly call: ToolUseBlock;
}

/** The last suspension of a call, which waits until there is an answer. */
interface Wait {
  readonly suspension?: SuspensionBlock;
  readonly answer?: AnswerBlock;
}

/** The next step of an agent. */
export type Step =
  | { readonly type: "reason" }
  | OpenStep
  | { readonly type: "done"; readonly message: Message };

/** The last message has open calls, or a hook stopped the task after it. */
export interface OpenStep {
  readonly type: "act" | "wait";
  readonly message: Message;
  readonly calls: readonly PendingCall[];
  /** An open stop that concerns no call. */
  readonly stop?: SuspensionBlock;
  /** When a hook asked for the stop that is open. */
  readonly stoppedAfter?: "reasoning" | "acting";
}

/** The next step is a pure function of the transcript, so start, resume and recovery are one code path. */
export function nextStep(messages: readonly Message[], agentName: string): Step {
  return new StepState(messages, agentName).next;
}

/** The next step, kept up to date: each read continues after the messages of the last one. */
export class StepState {
  readonly #messages: readonly Message[];
  readonly #agentName: string;
  #read = 0;
  #message: Message | undefined;
  /** The calls of the message that have no result, in order. */
  readonly #open = new Map<string, PendingCall>();
  #stop: Wait = {};
  #stoppedAfter: OpenStep["stoppedAfter"];
  #hasResults = false;
  #isHeard = false;

  constructor(messages: readonly Message[], agentName: string) {
    this.#messages = messages;
    this.#agentName = agentName;
  }

  get next(): Step {
    this.#update();
    const message = this.#message;
    if (message === undefined) return { type: "reason" };
    const stop = isRunnable(this.#stop) ? undefined : this.#stop.suspension;
    if (stop || this.#open.size > 0) {
      const { open: calls, stoppedAfter } = this;
      const type = !stop && calls.some(isRunnable) ? "act" : "wait";
      return { type, message, calls, ...(stop && { stop }), ...(stoppedAfter && { stoppedAfter }) };
    }
    const asked = message.content.some((block) => block.type === "tool_use");
    // A filtered or cut reply also ends the task, even without content.
    const isSaid = message.content.some(isVisible) || message.metadata?.finish !== undefined;
    if (!this.#isHeard && !asked && isSaid) return { type: "done", message };
    return { type: "reason" };
  }

  /** The calls without a result, in order. */
  get open(): readonly PendingCall[] {
    this.#update();
    return [...this.#open.values()];
  }

  /** The calls that can run, in order; none while a stop is open. */
  runnable(): readonly PendingCall[] {
    const { open } = this;
    return isRunnable(this.#stop) ? open.filter(isRunnable) : [];
  }

  /** When a hook asked for the stop that is open. */
  get stoppedAfter(): OpenStep["stoppedAfter"] {
    this.#update();
    const waits = this.#stoppedAfter ? [this.#stop, ...this.#open.values()] : [];
    const isOpen = waits.some((wait) => wait.suspension?.kind === "stop" && !isRunnable(wait));
    return isOpen || !isRunnable(this.#stop) ? this.#stoppedAfter : undefined;
  }

  #update(): void {
    const messages = this.#messages;
    if (this.#read === messages.length) return;
    const isReply = ({ role, name }: Message) => role === "assistant" && name === this.#agentName;
    let at = messages.length - 1;
    while (at >= this.#read && !isReply(messages[at] as Message)) at -= 1;
    if (at >= this.#read) this.#begin(messages[at] as Message);
    this.#read = Math.max(this.#read, at + 1);
    if (this.#message === undefined) this.#read = messages.length;
    for (; this.#read < messages.length; this.#read++)
      for (const block of (messages[this.#read] as Message).content) this.#take(block);
  }

  #begin(message: Message): void {
    this.#message = message;
    this.#open.clear();
    this.#stop = {};
    this.#stoppedAfter = undefined;
    this.#hasResults = false;
    this.#isHeard = false;
    for (const call of message.content)
      if (call.type === "tool_use") this.#open.set(call.id, { call });
  }

  #take(block: Block): void {
    this.#isHeard ||= isSpoken(block);
    if (block.type === "tool_result") {
      this.#hasResults = true;
      this.#open.delete(block.id);
    } else if (block.type === "suspension") {
      if (block.kind === "stop") this.#stoppedAfter = this.#hasResults ? "acting" : "reasoning";
      this.#change(block.callId, { suspension: block });
    } else if (block.type === "answer") {
      const { callId, approvalId, decision } = block;
      const { suspension } = (callId === stopCallId ? this.#stop : this.#open.get(callId)) ?? {};
      if (suspension?.approvalId !== approvalId) return;
      // An approved stop asked nothing about the call itself: hooks, rules and approvals follow.
      const isOver = suspension.kind === "stop" && decision === "approve";
      this.#change(callId, isOver ? {} : { suspension, answer: block });
    }
  }

  #change(callId: string, wait: Wait): void {
    if (callId === stopCallId) this.#stop = wait;
    const call = this.#open.get(callId)?.call;
    if (call) this.#open.set(callId, { call, ...wait });
  }
}

/** Whether people can see a block of a reply. */
export function isVisible(block: Block): boolean {
  return block.type === "text" ? block.text.trim() !== "" : "source" in block;
}

/** In place of the id of a call, for a stop that concerns none. */
export const stopCallId = "";

/** Whether a call can run: it was never suspended, or it has its answer. */
export function isRunnable({ suspension, answer }: Wait): boolean {
  return suspension === undefined || answer !== undefined;
}

/** Whether a block is content, in contrast to a control block. */
export function isSpoken(block: Block): boolean {
  return block.type !== "suspension" && block.type !== "answer" && block.type !== "compaction";
}
