/** The provider whose API a server implements. */
export type ProviderKind = "openai" | "anthropic" | "openai-compatible";

/** A provider-independent reply; each list holds deltas. */
export interface ProviderTurn {
  readonly thinking?: readonly string[];
  readonly text?: readonly string[];
  readonly calls?: readonly {
    readonly id: string;
    readonly name: string;
    readonly input: readonly string[];
  }[];
}

const usage = { input: 11, output: 7 };

/** Converts a turn to the provider's server-sent events. */
export function framesOf(kind: ProviderKind, turn: ProviderTurn): readonly string[] {
  return encoders[kind](turn);
}

const encoders: Readonly<Record<ProviderKind, (turn: ProviderTurn) => readonly string[]>> = {
  openai: responses,
  anthropic: messages,
  "openai-compatible": chatCompletions,
};

function responses({ thinking = [], text = [], calls = [] }: ProviderTurn): readonly string[] {
  const frames: string[] = [];
  const event = (type: string, fields: object) => {
    const sequence_number = frames.length;
    frames.push(named(type, { type, sequence_number, ...fields }));
  };
  const response = { id: "resp_1", object: "response", created_at: 1, model: "test-model" };
  event("response.created", { response: { ...response, status: "in_progress" } });
  event("response.in_progress", { response: { ...response, status: "in_progress" } });
  let output_index = 0;
  if (thinking.length > 0) {
    const at = { item_id: "rs_1", output_index, summary_index: 0 };
    const item = { type: "reasoning", id: "rs_1", summary: [] };
    event("response.output_item.added", { output_index, item });
    event("response.reasoning_summary_part.added", {
      ...at,
      part: { type: "summary_text", text: "" },
    });
    for (const delta of thinking) event("response.reasoning_summary_text.delta", { ...at, delta });
    const part = { type: "summary_text", text: thinking.join("") };
    event("response.reasoning_summary_text.done", { ...at, text: part.text });
    event("response.reasoning_summary_part.done", { ...at, part });
    event("response.output_item.done", { output_index, item: { ...item, summary: [part] } });
    output_index += 1;
  }
  if (text.length > 0) {
    const at = { item_id: "msg_1", output_index, content_index: 0 };
    const item = { type: "message", id: "msg_1", role: "assistant", content: [] };
    const part = { type: "output_text", text: text.join(""), annotations: [] };
    event("response.output_item.added", { output_index, item });
    event("response.content_part.added", { ...at, part: { ...part, text: "" } });
    for (const delta of text) event("response.output_text.delta", { ...at, delta });
    event("response.output_text.done", { ...at, text: part.text });
    event("response.content_part.done", { ...at, part });
    event("response.output_item.done", { output_index, item: { ...item, content: [part] } });
    output_index += 1;
  }
  for (const { id, name, input } of calls) {
    const at = { item_id: `fc_${id}`, output_index };
    const item = { type: "function_call", id: at.item_id, call_id: id, name, arguments: "" };
    event("response.output_item.added", { output_index, item: { ...item, status: "in_progress" } });
    for (const delta of input) event("response.function_call_arguments.delta", { ...at, delta });
    const whole = { ...item, arguments: input.join(""), status: "completed" };
    event("response.function_call_arguments.done", { ...at, arguments: whole.arguments });
    event("response.output_item.done", { output_index, item: whole });
    output_index += 1;
  }
  event("response.completed", {
    response: {
      ...response,
      status: "completed",
      usage: {
        input_tokens: usage.input,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: usage.output,
        output_tokens_details: { reasoning_tokens: 0 },
      },
    },
  });
  return frames;
}

function messages({ thinking = [], text = [], calls = [] }: ProviderTurn): readonly string[] {
  const frames: string[] = [];
  const event = (type: string, fields: object = {}) => {
    frames.push(named(type, { type, ...fields }));
  };
  let index = 0;
  const block = (content_block: object, deltas: readonly object[]) => {
    event("content_block_start", { index, content_block });
    for (const delta of deltas) event("content_block_delta", { index, delta });
    event("content_block_stop", { index });
    index += 1;
  };
  event("message_start", {
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "test-model",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: usage.input, output_tokens: 1 },
    },
  });
  event("ping");
  if (thinking.length > 0) {
    block({ type: "thinking", thinking: "", signature: "" }, [
      ...thinking.map((delta) => ({ type: "thinking_delta", thinking: delta })),
      { type: "signature_delta", signature: "signed" },
    ]);
  }
  if (text.length > 0) {
    block(
      { type: "text", text: "" },
      text.map((delta) => ({ type: "text_delta", text: delta })),
    );
  }
  for (const { id, name, input } of calls) {
    block(
      { type: "tool_use", id, name, input: {} },
      input.map((delta) => ({ type: "input_json_delta", partial_json: delta })),
    );
  }
  const stop_reason = calls.length > 0 ? "tool_use" : "end_turn";
  event("message_delta", {
    delta: { stop_reason, stop_sequence: null },
    usage: { output_tokens: usage.output },
  });
  event("message_stop");
  return frames;
}

function chatCompletions({
  thinking = [],
  text = [],
  calls = [],
}: ProviderTurn): readonly string[] {
  const frames: string[] = [];
  const chunk = (fields: object) => {
    const head = { id: "chat_1", object: "chat.completion.chunk", created: 1, model: "test-model" };
    frames.push(`data: ${JSON.stringify({ ...head, ...fields })}\n\n`);
  };
  const delta = (fields: object, finish_reason: string | null = null) =>
    chunk({ choices: [{ index: 0, delta: fields, finish_reason }] });
  delta({ role: "assistant", content: "" });
  for (const reasoning_content of thinking) delta({ reasoning_content });
  for (const content of text) delta({ content });
  for (const [index, { id, name, input }] of calls.entries()) {
    const first = { index, id, type: "function", function: { name, arguments: "" } };
    delta({ tool_calls: [first] });
    for (const piece of input) delta({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  delta({}, calls.length > 0 ? "tool_calls" : "stop");
  const { input: prompt_tokens, output: completion_tokens } = usage;
  chunk({ choices: [], usage: { prompt_tokens, completion_tokens, total_tokens: 18 } });
  frames.push("data: [DONE]\n\n");
  return frames;
}

function named(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}
