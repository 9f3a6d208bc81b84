import type {
  ClientCapabilities,
  ElicitationSchema,
  PermissionOption,
  SessionUpdate,
  StopReason,
  ToolCallUpdate,
} from "@agentclientprotocol/sdk";
import { type AgentContext, methods } from "@agentclientprotocol/sdk";
import { ask } from "../../client/index.ts";
import {
  type Agent,
  type Answer,
  type Approval,
  approvalIn,
  type Input,
} from "../../contract/index.ts";
import { subtreeOf, type Task, type TaskEvent, waitingIn } from "../../protocol/index.ts";
import { questionForm } from "../question-form.ts";
import { AcpUpdates } from "./updates.ts";

/** An open session of an editor. */
export interface AcpSession {
  readonly sessionId: string;
  readonly userId?: string;
  readonly agent: Agent;
  /** The turn that was last begun. */
  turn?: Turn;
}

/** An editor at the other end of a connection. */
export interface Editor {
  readonly client: AgentContext;
  readonly capabilities: ClientCapabilities;
  /** The context window of the model in tokens. */
  readonly contextWindow: number;
}

const permissions: readonly PermissionOption[] = [
  { optionId: "approve", name: "Allow", kind: "allow_once" },
  { optionId: "always", name: "Always allow in this session", kind: "allow_always" },
  { optionId: "deny", name: "Deny", kind: "reject_once" },
];

const textForm: ElicitationSchema = {
  type: "object",
  properties: { answer: { type: "string", title: "Answer" } },
  required: ["answer"],
};

/** One run of an agent for an editor: its updates, its approvals at any depth, and its end. */
export class Turn {
  /** Why the agent stopped; it rejects if the run failed. Work in the background may continue. */
  readonly stopped: Promise<StopReason>;
  /** Resolves when the whole tree has ended. */
  readonly ended: Promise<void>;
  readonly #session: AcpSession;
  readonly #editor: Editor;
  readonly #updates: AcpUpdates;
  readonly #cancel = new AbortController();
  readonly #asked = new Set<string>();
  #hasReplied = false;
  #seen = -1;
  #sending: Promise<void> = Promise.resolve();

  /** Without an input it continues the task of the session, whose stored events are in `updates`. */
  constructor(
    editor: Editor,
    session: AcpSession,
    input: Input,
    updates: AcpUpdates = new AcpUpdates(editor.contextWindow),
  ) {
    this.#editor = editor;
    this.#session = session;
    this.#updates = updates;
    const { promise, resolve, reject } = Promise.withResolvers<StopReason>();
    this.stopped = promise;
    const { agent, sessionId, userId } = session;
    const asking = ask(agent, input, {
      sessionId,
      ...(userId !== undefined && { userId }),
      view: {
        get tree() {
          return updates.tree;
        },
        see: (event) => this.#see(event),
      },
      decide: (approval) => this.#decide(approval),
      signal: this.#cancel.signal,
      onReply: () => {
        this.#hasReplied = true;
        this.#askInBackground();
        resolve(this.#stopReason());
      },
    });
    this.ended = asking.then(
      () => resolve(this.#stopReason()),
      (error: unknown) => (this.isCancelled ? resolve("cancelled") : reject(error as Error)),
    );
    promise.catch(() => {}); // a turn that continues a stored task has no request
  }

  /** Whether the editor has cancelled the turn. */
  get isCancelled(): boolean {
    return this.#cancel.signal.aborted;
  }

  /** Whether the agent still works for the request of the editor. */
  get isAtWork(): boolean {
    return !this.#hasReplied && !this.isCancelled;
  }

  /** Cancels the run with all its descendants. */
  cancel(): void {
    this.#cancel.abort(new Error("The user cancelled the turn."));
  }

  async #see(event: TaskEvent): Promise<void> {
    // After an answer in the background two readers may follow the log.
    if ("sequence_number" in event) {
      if (event.sequence_number <= this.#seen) return;
      this.#seen = event.sequence_number;
    }
    const updates = this.#updates.translate(event);
    this.#sending = this.#sending.then(() => this.#send(updates));
    await this.#sending;
    if (this.#hasReplied && event.type === "task.approval.requested") this.#askInBackground();
  }

  async #send(updates: readonly SessionUpdate[]): Promise<void> {
    const { sessionId } = this.#session;
    for (const update of updates)
      await this.#editor.client.notify(methods.client.session.update, { sessionId, update });
  }

  #stopReason(): StopReason {
    const { status, incompleteReason } = this.#updates.root ?? {};
    if (this.isCancelled || status === "cancelled") return "cancelled";
    if (incompleteReason === "content_filter") return "refusal";
    if (incompleteReason === "max_output_tokens") return "max_tokens";
    return status === "incomplete" ? "max_turn_requests" : "end_turn";
  }

  /** Asks about approvals of descendants that outlive the answer of the root. */
  #askInBackground(): void {
    const { root, tree } = this.#updates;
    if (root === undefined) return;
    for (const task of subtreeOf(tree, root.id).filter(({ id }) => id !== root.id))
      for (const state of waitingIn(task)) void this.#answer(approvalIn(task, state, root.id));
  }

  async #answer(approval: Approval): Promise<void> {
    if (this.#asked.has(approval.id)) return;
    try {
      const answer = await this.#decide(approval);
      if (answer === undefined) return;
      const { agent, sessionId, userId } = this.#session;
      const run = agent.run([answer], { sessionId, ...(userId !== undefined && { userId }) });
      const after = this.#updates.tree.safeCursor;
      for await (const event of run.events({ after, until: "tree" })) await this.#see(event);
    } catch {
      // The log of the task has the error, or the editor has left.
    }
  }

  async #decide(approval: Approval): Promise<Answer | undefined> {
    this.#asked.add(approval.id);
    if (approval.kind === "external")
      return { ...approval.answer("The editor cannot run this tool."), state: "error" };
    return approval.kind === "question" ? this.#question(approval) : this.#permission(approval);
  }

  async #permission(approval: Approval): Promise<Answer | undefined> {
    const { id, kind, call, message, taskId } = approval;
    const toolCallId = this.#updates.callOf({ call_id: call.id, approval_id: id });
    const title = this.#updates.titleOf(taskId, call.name, call.input);
    const toolCall: ToolCallUpdate = {
      toolCallId,
      rawInput: call.input,
      status: "pending",
      ...(call.name !== "" && { title }),
      ...(message && { content: [{ type: "content", content: { type: "text", text: message } }] }),
    };
    const request = this.#editor.client.request(methods.client.session.requestPermission, {
      sessionId: this.#session.sessionId,
      toolCall,
      options: permissions.filter(
        (option) => kind === "tool_call" || option.kind !== "allow_always",
      ),
    });
    const given = await this.#unlessCancelled(request);
    if (given === undefined || this.isCancelled) return undefined;
    const { outcome } = given;
    if (outcome.outcome === "cancelled") return approval.deny("The user closed the request.");
    if (outcome.optionId === "always") return approval.approve({ always: true });
    return outcome.optionId === "approve"
      ? approval.approve()
      : approval.deny("The user denied this.");
  }

  /** Asks a question as a form. An editor without forms shows it, and the next prompt answers it. */
  async #question(approval: Approval): Promise<Answer | undefined> {
    const { message = approval.call.name, call } = approval;
    const form = questionForm(approval);
    const { sessionId } = this.#session;
    if (!this.#editor.capabilities.elicitation?.form) {
      const content = { type: "text", text: message } as const;
      await this.#send([{ sessionUpdate: "agent_message_chunk", content }]);
      return undefined;
    }
    const request = this.#editor.client.request(methods.client.elicitation.create, {
      mode: "form",
      sessionId,
      message,
      ...(call.id !== "" && { toolCallId: call.id }),
      requestedSchema: (form ?? textForm) as ElicitationSchema,
    });
    const given = await this.#unlessCancelled(request);
    if (given === undefined || this.isCancelled) return undefined;
    const { content } = given as { content?: Readonly<Record<string, unknown>> };
    if (given.action !== "accept") return approval.deny("The user did not answer.");
    return approval.answer(form ? JSON.stringify(content ?? {}) : String(content?.answer ?? ""));
  }

  async #unlessCancelled<Result>(request: Promise<Result>): Promise<Result | undefined> {
    const { signal } = this.#cancel;
    const { promise: cancelled, resolve } = Promise.withResolvers<undefined>();
    const stop = () => resolve(undefined);
    signal.addEventListener("abort", stop);
    request.catch(() => {}); // after a cancel the editor may answer with an error
    try {
      return signal.aborted ? undefined : await Promise.race([request, cancelled]);
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }
}

/** Whether a task has not ended. */
export function isOpen({ status }: Pick<Task, "status">): boolean {
  return status === "queued" || status === "in_progress" || status === "suspended";
}
