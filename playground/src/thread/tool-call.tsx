import { memo, useEffect, useRef, useState } from "react";
import type { ApprovalState, ToolCallItem, ToolResultItem, WireBlock } from "rivulet/protocol";
import { Icon } from "../icons.tsx";
import { argumentsOf } from "../state/agents.ts";
import { api } from "../state/api.ts";
import { sizeOf } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { useUi } from "../state/ui.ts";
import { changeOf, FileChange } from "./file-change.tsx";
import { Blocks, Image } from "./items.tsx";

interface CallProps {
  readonly log: RunLog;
  readonly taskId: string;
  readonly item: ToolCallItem;
  readonly result: ToolResultItem | undefined;
  /** True: it waits for a person. */
  readonly isAsking?: boolean;
  readonly decision?: ApprovalState["decision"];
  /** True: the task has ended, so an open call has, too. */
  readonly isOver?: boolean;
}

/** A tool call on one line: name, arguments as they arrive, size of the result. It opens to all of it. */
export const ToolCall = memo(function ToolCall(props: CallProps) {
  const { log, taskId, item, result, isAsking = false, isOver = false, decision } = props;
  const [isOpen, setOpen] = useState(false);
  const place = useUi(({ place }) =>
    place?.itemId !== undefined && place.itemId === result?.id ? place : undefined,
  );
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (place) setOpen(true);
  }, [place]);
  const images = result?.block_list.filter((block) => block.type === "image") ?? [];
  const isFailed = result?.status === "failed";
  return (
    <div className="tool" data-item={result?.id ?? item.id} ref={element}>
      <button
        type="button"
        className="call"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <Icon name={iconOf(item.name)} />
        <code>{item.name}</code>
        <span className="arg">{summaryOf(item)}</span>
        {decision && <span className="tag">{decisions[decision]}</span>}
        <span className={isFailed ? "res bad" : "res"}>
          {isAsking ? "waits for you" : resultText(item, result, isOver)}
        </span>
      </button>
      {images.map((block, index) => (
        <Image key={index.toString()} block={block} />
      ))}
      {isOpen && (
        <Details log={log} taskId={taskId} item={item} result={result} quote={place?.quote} />
      )}
    </div>
  );
});

const decisions: Readonly<Record<NonNullable<ApprovalState["decision"]>, string>> = {
  approve: "approved",
  deny: "denied",
  edit: "edited",
  answer: "answered",
  expire: "expired",
  cancel: "cancelled",
};

function iconOf(name: string) {
  if (/^agent_/.test(name)) return "fork";
  if (/grep|glob|find|search/.test(name)) return "find";
  return /file|read|write/.test(name) ? "file" : "tool";
}

/** The most telling argument, or what has arrived of them. */
function summaryOf({ name, arguments: text }: ToolCallItem): string {
  const input = argumentsOf(text);
  // The thread of the agent takes the place of this row in a moment.
  const [, agent, task = ""] =
    /^\{"agent_id":\s*"([^"]*)"(?:,\s*"task":\s*"((?:[^"\\]|\\.)*))?/.exec(text) ?? [];
  if (name === "agent_spawn" && agent !== undefined)
    return [agent, task.replace(/\\n/g, " ").replace(/\\(.)/g, "$1")].filter(Boolean).join(": ");
  if (input === undefined) return text;
  const strings = Object.entries(input).filter(([, value]) => typeof value !== "object");
  for (const name of ["pattern", "path", "query", "command", "url", "title", "name"]) {
    const value = input[name];
    if (typeof value === "string") return name === "pattern" ? `"${value}"` : value;
  }
  return strings.map(([name, value]) => `${name}: ${value}`).join(", ");
}

function resultText(
  item: ToolCallItem,
  result: ToolResultItem | undefined,
  isOver: boolean,
): string {
  if (isOver && (result ?? item).status === "in_progress") return "stopped";
  if (result === undefined) return item.status === "in_progress" ? "" : "waits";
  const { status, error, progress, block_list: blocks } = result;
  if (status === "failed") return error?.message ?? "failed";
  if (status === "cancelled") return "cancelled";
  if (progress) {
    const { progress: done, total, message } = progress;
    return [message, total === undefined ? String(done) : `${done} of ${total}`]
      .filter(Boolean)
      .join(" ");
  }
  const text = textIn(blocks);
  if (text !== "") return sizeOf(text);
  if (status === "in_progress") return "running";
  return blocks.length > 0 ? `${blocks.length} ${blocks[0]?.type}` : "done";
}

function textIn(blocks: readonly WireBlock[]): string {
  return blocks
    .map((block) => (block.type === "text" ? block.text : ""))
    .join("\n")
    .trimEnd();
}

type View = "result" | "model" | "arguments" | "diff";
const names: Readonly<Record<View, string>> = {
  result: "Result",
  model: "Model’s view",
  arguments: "Arguments",
  diff: "Diff",
};

function Details({
  log,
  taskId,
  item,
  result,
  quote,
}: CallProps & { readonly quote: string | undefined }) {
  const input = argumentsOf(item.arguments);
  const change = changeOf(item.name, input);
  const [chosen, setView] = useState<View>(change ? "diff" : "result");
  const view = quote === undefined ? chosen : "result";
  const views: readonly View[] = [
    ...(change ? (["diff"] as const) : []),
    ...(["result", "model", "arguments"] as const),
  ];
  const isRecorded = log.run === undefined;
  return (
    <div className="details">
      <div className="seg ink" role="group" aria-label="View of the call">
        {views
          .filter((name) => !(isRecorded && name === "model"))
          .map((name) => (
            <button
              key={name}
              type="button"
              className={name === view ? "on" : ""}
              aria-pressed={name === view}
              onClick={() => setView(name)}
            >
              {names[name]}
            </button>
          ))}
      </div>
      {view === "arguments" && <pre className="out">{pretty(item.arguments)}</pre>}
      {view === "diff" && change && <FileChange change={change} isPending={false} />}
      {view === "model" && (
        <ModelView taskId={taskId} ids={`${item.call_id} ${item.provider_call_id}`} />
      )}
      {view === "result" && result && <Result result={result} quote={quote} />}
      {view === "result" && !result && <p className="note">The tool has not answered yet.</p>}
    </div>
  );
}

function Result({
  result,
  quote,
}: {
  readonly result: ToolResultItem;
  readonly quote: string | undefined;
}) {
  if (result.error)
    return (
      <p className="notice bad">
        {result.error.message} {result.error.hint}
      </p>
    );
  const text = textIn(result.block_list);
  if (quote === undefined || !text.includes(quote)) return <Blocks blocks={result.block_list} />;
  const at = text.indexOf(quote);
  return (
    <pre className="out">
      {text.slice(0, at)}
      <mark className="cited">{quote}</mark>
      {text.slice(at + quote.length)}
    </pre>
  );
}

/** The result as the model got it, from the next prompt of the task. */
function ModelView({ taskId, ids }: { readonly taskId: string; readonly ids: string }) {
  const [state, setState] = useState<{ readonly text?: string; readonly error?: string }>({});
  useEffect(() => {
    let isCurrent = true;
    readModelView(taskId, ids.split(" ")).then(
      (text) => isCurrent && setState({ text }),
      (error: Error) => isCurrent && setState({ error: error.message }),
    );
    return () => {
      isCurrent = false;
    };
  }, [taskId, ids]);
  if (state.error !== undefined) return <p className="note">{state.error}</p>;
  return <pre className="out">{state.text ?? "…"}</pre>;
}

async function readModelView(taskId: string, ids: readonly string[]): Promise<string> {
  const { prompts } = await api.prompts(taskId);
  for (const { iteration } of prompts) {
    const [prompt] = (await api.prompts(taskId, iteration)).prompts;
    for (const { role, content } of prompt?.messages ?? []) {
      if (role !== "tool" || !Array.isArray(content)) continue;
      const part = content.find((entry: { toolCallId?: string }) =>
        ids.includes(entry.toolCallId ?? ""),
      );
      if (part) return modelText((part as { output?: unknown }).output);
    }
  }
  return "The model has not been asked again since.";
}

/** The text of a part that the model gets. */
export function modelText(output: unknown): string {
  if (typeof output === "string") return output;
  const { value } = (output ?? {}) as { value?: unknown };
  if (typeof value === "string") return value;
  if (Array.isArray(value))
    return value
      .map((part: { type?: string; text?: string }) => part.text ?? `(${part.type})`)
      .join("\n");
  return JSON.stringify(output, null, 2);
}

export function pretty(text: string): string {
  const input = argumentsOf(text);
  return input === undefined ? text : JSON.stringify(input, null, 2);
}
