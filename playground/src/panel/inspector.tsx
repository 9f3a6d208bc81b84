import { useEffect, useState } from "react";
import { taskOf } from "rivulet/protocol";
import { Icon, Status } from "../icons.tsx";
import { labelOf, shapeOf } from "../state/agents.ts";
import { api, type Prompt } from "../state/api.ts";
import { number } from "../state/format.ts";
import type { RunLog } from "../state/run-log.ts";
import { useUi } from "../state/ui.ts";
import { copyText } from "../stream/playback.ts";
import { useLogView } from "../thread/context.ts";
import { modelText } from "../thread/tool-call.tsx";
import { EventList } from "./event-list.tsx";
import { UsageView } from "./usage.tsx";

/** The exact prompt of a model call, the usage, and the raw events. */
export function Inspector({ log }: { readonly log: RunLog }) {
  const selected = useUi(({ selected }) => selected);
  const rootId = useLogView(log, ({ tree }) => tree.rootId);
  const isHere = useLogView(log, ({ tree }) => taskOf(tree, selected) !== undefined);
  const taskId = isHere ? selected : rootId;
  const [view, setView] = useState<"prompt" | "usage">("prompt");
  if (taskId === undefined) return <p className="none">No events yet.</p>;
  return (
    <>
      <div className="seg ink wide" role="group" aria-label="View of the inspector">
        {(["prompt", "usage"] as const).map((name) => (
          <button
            key={name}
            type="button"
            className={view === name ? "on" : ""}
            aria-pressed={view === name}
            onClick={() => setView(name)}
          >
            {name === "prompt" ? "Prompt" : "Usage"}
          </button>
        ))}
      </div>
      {view === "usage" ? (
        <UsageView log={log} />
      ) : log.run ? (
        <Prompts log={log} taskId={taskId} key={taskId} />
      ) : (
        <p className="none">A file of a run has its events, not its prompts.</p>
      )}
      <EventList log={log} taskId={taskId} />
    </>
  );
}

function Prompts({ log, taskId }: { readonly log: RunLog; readonly taskId: string }) {
  const [calls, setCalls] = useState<readonly Prompt[]>([]);
  const [chosen, setChosen] = useState<number>();
  const [prompt, setPrompt] = useState<Prompt>();
  const [problem, setProblem] = useState("");
  const task = useLogView(log, ({ tree }) => taskOf(tree, taskId));
  const label = useLogView(log, ({ tree }) => labelOf(tree, taskId));
  // A model call has ended when the usage of the task has grown.
  const used = task?.usage?.total_tokens ?? 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the usage stands for the calls
  useEffect(() => {
    let isCurrent = true;
    api.prompts(taskId).then(
      ({ prompts }) => isCurrent && setCalls(prompts),
      (error: Error) => isCurrent && setProblem(error.message),
    );
    return () => {
      isCurrent = false;
    };
  }, [taskId, used]);
  const iteration = chosen ?? calls.at(-1)?.iteration;
  useEffect(() => {
    if (iteration === undefined) return;
    let isCurrent = true;
    api.prompts(taskId, iteration).then(
      ({ prompts }) => isCurrent && setPrompt(prompts[0]),
      (error: Error) => isCurrent && setProblem(error.message),
    );
    return () => {
      isCurrent = false;
    };
  }, [taskId, iteration]);
  const index = calls.findIndex((call) => call.iteration === iteration);
  const go = (by: number) => setChosen(calls[index + by]?.iteration ?? iteration);
  return (
    <>
      <div className="ih">
        {task && <Status shape={shapeOf(task)} />}
        <b>{label}</b>
        <span>
          model call {index + 1} of {calls.length}
        </span>
        <button
          type="button"
          className="icon"
          aria-label="The model call before"
          disabled={index <= 0}
          onClick={() => go(-1)}
        >
          <Icon name="back" />
        </button>
        <button
          type="button"
          className="icon"
          aria-label="The next model call"
          disabled={index >= calls.length - 1}
          onClick={() => go(1)}
        >
          <Icon name="step" />
        </button>
        <span className="grow" />
        <span className="num by">{usageText(prompt)}</span>
        <button
          type="button"
          className="btn sm"
          disabled={prompt === undefined}
          onClick={() => void copyText(JSON.stringify(prompt, null, 2), "The prompt is copied.")}
        >
          Copy prompt
        </button>
      </div>
      <div className="prompt">
        {problem !== "" && <p className="none">{problem}</p>}
        {problem === "" && calls.length === 0 && (
          <p className="none">No model call has ended yet.</p>
        )}
        {prompt && <PromptParts prompt={prompt} />}
      </div>
    </>
  );
}

function usageText(prompt: Prompt | undefined): string {
  const { inputTokens, outputTokens } = (prompt?.usage ?? {}) as Record<string, unknown>;
  const shown = (value: unknown) =>
    typeof value === "number" ? number(value) : number((value as { total?: number })?.total ?? 0);
  if (inputTokens === undefined) return prompt?.model ?? "";
  return `in ${shown(inputTokens)} out ${shown(outputTokens)}`;
}

function PromptParts({ prompt }: { readonly prompt: Prompt }) {
  const { messages = [], tools, options } = prompt;
  const [system, ...rest] = messages[0]?.role === "system" ? messages : [undefined, ...messages];
  return (
    <>
      {system && <Part from="system" text={textOf(system.content)} />}
      {tools && tools.length > 0 && (
        <div className="seg2">
          <span className="role">tools</span>
          <span className="names">
            {tools.map(({ name, description, input_schema }) => (
              <details key={name}>
                <summary>
                  <code>{name}</code>
                </summary>
                <p>{description}</p>
                <pre>{JSON.stringify(input_schema, null, 2)}</pre>
              </details>
            ))}
          </span>
          <span className="n num">{number(tools.length)}</span>
        </div>
      )}
      {options && Object.keys(options).length > 0 && (
        <Part from="options" text={JSON.stringify(options)} />
      )}
      {rest.map(
        (message, index) =>
          message && (
            <Part key={index.toString()} from={message.role} text={textOf(message.content)} />
          ),
      )}
    </>
  );
}

/** The text of a message of a prompt, as the provider gets it. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content, null, 2);
  return content
    .map((part: Record<string, unknown>) => {
      if (typeof part.text === "string") return part.text;
      if (part.type === "tool-call") return `${part.toolName} ${JSON.stringify(part.input)}`;
      if (part.type === "tool-result") return modelText(part.output);
      return JSON.stringify(part);
    })
    .join("\n");
}

function Part({ from, text }: { readonly from: string; readonly text: string }) {
  const [isWhole, setWhole] = useState(false);
  const lines = text.split("\n");
  const isLong = lines.length > 24;
  const shown = isLong && !isWhole ? lines.slice(0, 20).join("\n") : text;
  return (
    <div className="seg2">
      <span className="role">{from}</span>
      <span>
        <pre>{shown}</pre>
        {isLong && (
          <button type="button" className="link" onClick={() => setWhole(!isWhole)}>
            {isWhole ? "Show less" : `${lines.length - 20} more lines`}
          </button>
        )}
      </span>
      <span className="n num">{number(text.length)} chars</span>
    </div>
  );
}
