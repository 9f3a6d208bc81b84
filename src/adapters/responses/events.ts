import type {
  Response as OpenAiResponse,
  ResponseStreamEvent,
} from "openai/resources/responses/responses";
import { stateOf, streamedText, type TaskRecord } from "../../contract/index.ts";
import {
  type Annotation,
  type ApprovalRequested,
  type ApprovalState,
  type Item,
  isTerminal,
  type LogEvent,
  subtreeUsage,
  type Task,
  type TaskEvent,
  TaskTree,
  type ToolCallItem,
  type ToolResultItem,
} from "../../protocol/index.ts";
import { unfold } from "../foreign-snapshot.ts";
import { type Output, resourceOf } from "./resource.ts";

/** The name of this server on the calls that it makes itself. */
const serverLabel = "rivulet";
const answerTool = /^generate_response(_\d+)?$/;

type Event = ResponseStreamEvent;
type Place = { readonly index: number; readonly item: Output };
type Unnumbered = { readonly type: Event["type"]; readonly [field: string]: unknown };

/**
 * Translates the log of a root task, which must be read from its beginning, to the events of one response. A task that
 * waits for the client ends a response; the answers of the client begin the next part of the task.
 */
export class ResponseEvents {
  readonly #record: TaskRecord;
  readonly #part: number;
  readonly #tree = new TaskTree();
  readonly #clientTools: ReadonlySet<string>;
  #at = 0;
  #number = 0;
  /** The output of this part. */
  #output: Output[] = [];
  readonly #places = new Map<string, Place>();
  readonly #isOpen = new Set<string>();
  /** Where the texts of messages are in the content of their item, by item and block. */
  readonly #contents = new Map<string, number>();

  constructor(record: TaskRecord, part: number) {
    this.#record = record;
    this.#part = part;
    this.#clientTools = new Set(record.outsideTools?.map(({ name }) => name));
  }

  get #task(): Task | undefined {
    return this.#tree.task(this.#record.taskId);
  }

  /** Whether the part exists, as far as the log was translated. */
  get isReached(): boolean {
    return this.#at >= this.#part;
  }

  /** Whether the response is over. */
  get isOver(): boolean {
    const { status = "queued" } = this.#task ?? {};
    return this.#at > this.#part || status === "suspended" || isTerminal(status as "completed");
  }

  /** The events of the response for one event of the log. */
  translate(event: TaskEvent): readonly Event[] {
    if (event.type === "error" || this.#at > this.#part) return [];
    const isOwn = event.task_id === this.#record.taskId;
    const before = this.#task?.status;
    this.#tree.apply(event);
    if (isOwn && event.type === "task.resumed" && before === "suspended") this.#next();
    if (this.#at !== this.#part) return [];
    if (!isOwn) return event.type === "task.approval.requested" ? this.#asked(event) : [];
    const events = event.type === "task.snapshot" ? unfold(event) : [event];
    return events.flatMap((each) => this.#eventsOf(each));
  }

  #next(): void {
    this.#at += 1;
    if (this.#at > this.#part) return;
    this.#output = [];
    this.#places.clear();
    this.#isOpen.clear();
    this.#contents.clear();
  }

  #eventsOf(event: LogEvent): readonly Event[] {
    switch (event.type) {
      case "task.created":
        return this.#lifecycle("response.created");
      case "task.in_progress":
        return this.#lifecycle("response.in_progress");
      case "task.resumed":
        return event.reason === "recovered"
          ? []
          : [...this.#lifecycle("response.created"), ...this.#lifecycle("response.in_progress")];
      case "task.output_item.added":
        return this.#added(event.item);
      case "task.output_item.done":
        return this.#done(event.output_index);
      case "task.output_item.discarded":
        return this.#discarded(event.item_id);
      case "task.approval.requested":
        return this.#asked(event);
      case "task.suspended":
        return [...this.#closeAll(), ...this.#lifecycle("response.completed")];
      case "task.completed":
      case "task.failed":
      case "task.cancelled":
      case "task.incomplete":
        return this.#ended();
      default:
        return this.#partEvent(event);
    }
  }

  #partEvent(event: LogEvent): readonly Event[] {
    switch (event.type) {
      case "task.reasoning_summary_item.added":
        return this.#summary(event.item_id, event.summary_index, event.item.text);
      case "task.reasoning_summary_text.delta":
        return this.#summary(event.item_id, event.summary_index, event.delta);
      case "task.reasoning_summary_item.done":
        return this.#summaryDone(event.item_id, event.summary_index, event.item.text);
      case "task.tool_call_arguments.delta":
        return this.#arguments(event.item_id, event.delta);
      case "task.text.added":
        return this.#text(event.item_id, event.block_index, event.item.text);
      case "task.text.delta":
        return this.#text(event.item_id, event.block_index, event.delta);
      case "task.text.done":
        return this.#textDone(event.item_id, event.block_index, event.item);
      default:
        return [];
    }
  }

  #added(item: Item): readonly Event[] {
    const shown = this.#shownItem(item);
    return shown === undefined ? [] : this.#addItem(item.id, shown);
  }

  #shownItem(item: Item): Output | undefined {
    const { id } = item;
    switch (item.type) {
      case "reasoning":
        return { type: "reasoning", id, summary: [], status: "in_progress" };
      case "message":
        // The answer of a task with a schema is its structured value.
        if (this.#record.outputSchema) return undefined;
        return { type: "message", id, role: "assistant", status: "in_progress", content: [] };
      case "tool_call":
        return this.#shownCall(item);
      default:
        return undefined;
    }
  }

  #shownCall({ id, call_id, name }: ToolCallItem): Output | undefined {
    if (this.#record.outputSchema && answerTool.test(name)) return undefined;
    const call = { id, name, arguments: "", status: "in_progress" };
    if (this.#clientTools.has(name)) return { type: "function_call", ...call, call_id };
    return { type: "mcp_call", ...call, server_label: serverLabel, output: null, error: null };
  }

  #addItem(id: string, item: Output): readonly Event[] {
    const index = this.#output.push(item) - 1;
    this.#places.set(id, { index, item });
    const added = this.#numbered({
      type: "response.output_item.added",
      output_index: index,
      item: structuredClone(item),
    });
    if (item.type !== "mcp_call") return [added];
    const at = { item_id: id, output_index: index };
    return [added, this.#numbered({ type: "response.mcp_call.in_progress", ...at })];
  }

  #done(index: number): readonly Event[] {
    const item = this.#task?.output[index];
    if (item === undefined) return [];
    if (item.type === "tool_result") return this.#resultDone(item);
    const place = this.#places.get(item.id);
    if (place === undefined) return [];
    if (item.type === "tool_call") return this.#callDone(place, item);
    return this.#itemDone(place, "completed");
  }

  #callDone(place: Place, call: ToolCallItem): readonly Event[] {
    place.item.arguments = call.arguments;
    const at = { item_id: place.item.id, output_index: place.index };
    const isClients = place.item.type === "function_call";
    const done = isClients
      ? this.#numbered({
          type: "response.function_call_arguments.done",
          ...at,
          name: call.name,
          arguments: call.arguments,
        })
      : this.#numbered({
          type: "response.mcp_call_arguments.done",
          ...at,
          arguments: call.arguments,
        });
    // A call of ours is an item with its result.
    return isClients ? [done, ...this.#itemDone(place, "completed")] : [done];
  }

  #resultDone(result: ToolResultItem): readonly Event[] {
    const place = this.#placeOfCall(result.call_id);
    if (place === undefined || place.item.type !== "mcp_call") return [];
    const hasFailed = stateOf(result) !== "success";
    const text = streamedText(result);
    if (hasFailed) place.item.error = result.error?.message ?? text;
    else place.item.output = text;
    const at = { item_id: place.item.id, output_index: place.index };
    const type = hasFailed ? "response.mcp_call.failed" : "response.mcp_call.completed";
    const ended = this.#numbered({ type, ...at });
    return [ended, ...this.#itemDone(place, hasFailed ? "failed" : "completed")];
  }

  #placeOfCall(callId: string): Place | undefined {
    const call = this.#task?.output.findLast(
      (item) => item.type === "tool_call" && item.call_id === callId,
    );
    return call && this.#places.get(call.id);
  }

  #itemDone({ index, item }: Place, status: string): readonly Event[] {
    if (item.status !== "in_progress") return [];
    item.status = status;
    const done = { output_index: index, item: structuredClone(item) };
    return [this.#numbered({ type: "response.output_item.done", ...done })];
  }

  /** A client cannot forget an item: a discarded one is incomplete, and not in the final output. */
  #discarded(itemId: string): readonly Event[] {
    const place = this.#places.get(itemId);
    if (place === undefined) return [];
    const events = this.#itemDone(place, "incomplete");
    place.item.discarded = true;
    return events;
  }

  #arguments(itemId: string, delta: string): readonly Event[] {
    const place = this.#places.get(itemId);
    if (place === undefined) return [];
    place.item.arguments = `${place.item.arguments}${delta}`;
    const type =
      place.item.type === "function_call"
        ? "response.function_call_arguments.delta"
        : "response.mcp_call_arguments.delta";
    return [this.#numbered({ type, item_id: itemId, output_index: place.index, delta })];
  }

  #summary(itemId: string, summaryIndex: number, delta: string): readonly Event[] {
    const place = this.#places.get(itemId);
    if (place === undefined) return [];
    const at = { item_id: itemId, output_index: place.index, summary_index: summaryIndex };
    const summary = place.item.summary as { type: string; text: string }[];
    const events: Event[] = [];
    if (this.#open(`${itemId} ${summaryIndex}`)) {
      summary[summaryIndex] = { type: "summary_text", text: "" };
      const part = { type: "summary_text", text: "" };
      events.push(this.#numbered({ type: "response.reasoning_summary_part.added", ...at, part }));
    }
    if (delta === "") return events;
    (summary[summaryIndex] as { text: string }).text += delta;
    return [
      ...events,
      this.#numbered({ type: "response.reasoning_summary_text.delta", ...at, delta }),
    ];
  }

  #summaryDone(itemId: string, summaryIndex: number, text: string): readonly Event[] {
    const place = this.#places.get(itemId);
    if (place === undefined) return [];
    const isNew = !this.#isOpen.has(`${itemId} ${summaryIndex}`);
    const begun = this.#summary(itemId, summaryIndex, isNew ? text : "");
    const at = { item_id: itemId, output_index: place.index, summary_index: summaryIndex };
    const part = { type: "summary_text", text };
    return [
      ...begun,
      this.#numbered({ type: "response.reasoning_summary_text.done", ...at, text }),
      this.#numbered({ type: "response.reasoning_summary_part.done", ...at, part }),
    ];
  }

  #text(itemId: string, blockIndex: number, delta: string): readonly Event[] {
    const place = this.#places.get(itemId);
    if (place?.item.type !== "message") return [];
    const content = place.item.content as Part[];
    const key = `${itemId} ${blockIndex}`;
    // The content has the texts of a message only.
    const contentIndex = this.#contents.get(key) ?? content.length;
    const at = { item_id: itemId, output_index: place.index, content_index: contentIndex };
    const events: Event[] = [];
    if (!this.#contents.has(key)) {
      this.#contents.set(key, contentIndex);
      content.push(textPart(""));
      const part = textPart("");
      events.push(this.#numbered({ type: "response.content_part.added", ...at, part }));
    }
    if (delta === "") return events;
    (content[contentIndex] as Part).text += delta;
    const logprobs: never[] = [];
    return [
      ...events,
      this.#numbered({ type: "response.output_text.delta", ...at, delta, logprobs }),
    ];
  }

  #textDone(
    itemId: string,
    blockIndex: number,
    { text, annotations = [] }: { text: string; annotations?: readonly Annotation[] },
  ): readonly Event[] {
    const place = this.#places.get(itemId);
    if (place?.item.type !== "message") return [];
    const key = `${itemId} ${blockIndex}`;
    const begun = this.#text(itemId, blockIndex, this.#contents.has(key) ? "" : text);
    const contentIndex = this.#contents.get(key) ?? 0;
    const at = { item_id: itemId, output_index: place.index, content_index: contentIndex };
    const part = { ...textPart(text), annotations: annotations.map(citation) };
    (place.item.content as Part[])[contentIndex] = part;
    const cited = part.annotations.map((annotation, index) =>
      this.#numbered({
        type: "response.output_text.annotation.added",
        ...at,
        annotation_index: index,
        annotation,
      }),
    );
    return [
      ...begun,
      ...cited,
      this.#numbered({ type: "response.output_text.done", ...at, text, logprobs: [] }),
      this.#numbered({ type: "response.content_part.done", ...at, part }),
    ];
  }

  #open(key: string): boolean {
    if (this.#isOpen.has(key)) return false;
    this.#isOpen.add(key);
    return true;
  }

  /** Shows an approval, or a call that the client runs, at any depth. */
  #asked(approval: ApprovalRequested | ApprovalState): readonly Event[] {
    const { approval_id, kind, call_id = "", name = kind, arguments: input = "{}" } = approval;
    if (kind !== "external") {
      const request = { type: "mcp_approval_request", id: approval_id, name, arguments: input };
      return this.#wholeItem({ ...request, server_label: serverLabel });
    }
    if (this.#placeOfCall(call_id)?.item.type === "function_call") return [];
    // A tool of the agent itself that has no `execute`: the client runs it as one of its own.
    const call = { type: "function_call", id: `fc_${approval_id}`, call_id, name };
    return this.#wholeItem({ ...call, arguments: input, status: "completed" });
  }

  #wholeItem(item: Output): readonly Event[] {
    const added = this.#addItem(item.id, item);
    const { index } = this.#places.get(item.id) as Place;
    const done = { output_index: index, item: structuredClone(item) };
    return [...added, this.#numbered({ type: "response.output_item.done", ...done })];
  }

  /** Ends the items that the response leaves open: a call that waits continues in the next response. */
  #closeAll(): readonly Event[] {
    return [...this.#places.values()].flatMap((place) => this.#itemDone(place, "incomplete"));
  }

  #ended(): readonly Event[] {
    const { status, structured, id } = this.#task as Task;
    const answer = structured === undefined ? [] : this.#answer(id, JSON.stringify(structured));
    const types = {
      completed: "response.completed",
      failed: "response.failed",
    } as const;
    const type = types[status as keyof typeof types] ?? "response.incomplete";
    return [...this.#closeAll(), ...answer, ...this.#lifecycle(type)];
  }

  /** The structured answer as the message that a client parses. */
  #answer(taskId: string, text: string): readonly Event[] {
    const id = `msg_${taskId}`;
    const message = { type: "message", id, role: "assistant", status: "in_progress", content: [] };
    return [
      ...this.#addItem(id, message),
      ...this.#textDone(id, 0, { text }),
      ...this.#itemDone(this.#places.get(id) as Place, "completed"),
    ];
  }

  #lifecycle(type: Event["type"]): readonly Event[] {
    return [this.#numbered({ type, response: this.resource() })];
  }

  #numbered(event: Unnumbered): Event {
    return { ...event, sequence_number: this.#number++ } as unknown as Event;
  }

  /** The response as it stands. */
  resource(): OpenAiResponse {
    const output = this.#output.filter(({ discarded }) => !discarded);
    const usage = subtreeUsage(this.#tree.tree, this.#record.taskId);
    const isAnswered = this.#at > this.#part;
    return resourceOf(this.#record, this.#part, { task: this.#task, output, usage, isAnswered });
  }
}

interface Part {
  type: string;
  text: string;
  annotations: object[];
  logprobs: never[];
}

function textPart(text: string): Part {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

function citation({ reference_id, start_index }: Annotation): object {
  const id = `ref_${reference_id}`;
  return { type: "file_citation", file_id: id, filename: id, index: start_index };
}
