import { z } from "zod";
import {
  type SubagentDeclaration,
  type Tool,
  type ToolContext,
  tool,
} from "../../../../src/index.ts";
import { type ScriptedPart, type ScriptedRequest, scriptedModel } from "../../../../src/testing.ts";
import { turns } from "../../../agent/support/tools.ts";
import { type CallPlan, childCalls, type Kind, markOf, type TaskPlan } from "./plan.ts";

/** Callbacks of a cast's model. */
export interface CastModelOptions {
  readonly onAsked?: (asked: Asked) => void;
  /** Returns the id of a task that is not in the prompt. */
  readonly recall?: (key: string) => string | undefined;
}

/** A request of a model, and its task. */
export interface Asked {
  readonly key: string;
  readonly prompt: ScriptedRequest["prompt"];
}

/** The prompt of a task. */
export function inputFor(key: string): string {
  return `Do ${key}.`;
}

/**
 * One stateless model for all agents of a tree: it reads its task, its progress and the ids of other tasks from the
 * prompt.
 */
export function castModel(
  tasks: ReadonlyMap<string, TaskPlan>,
  { onAsked, recall }: CastModelOptions = {},
) {
  return scriptedModel(async (request) => {
    const { prompt } = request;
    const at = prompt.findLastIndex((message) => keyIn(message) !== undefined);
    const key = keyIn(prompt[at]) ?? "";
    const task = tasks.get(key);
    if (task === undefined) return `I was not asked: ${JSON.stringify(prompt)}`;
    onAsked?.({ key, prompt });
    const turn = prompt.slice(at).filter(({ role }) => role === "assistant").length;
    const mark = markOf(key);
    const usage: ScriptedPart = { usage: { inputTokens: 10 + turn, outputTokens: 5 } };
    if (!request.tools?.length) return [`${mark} All I know.`, usage];
    const planned = task.turns[turn];
    if (planned) {
      await turns(planned.pause);
      const said = [{ thinking: `${mark} Hm.` }, { text: [`${mark} I look. `, `${mark} Now.`] }];
      const calls = planned.calls.map((call) =>
        callOf(call, (of) => taskIdIn(prompt, of) ?? recall?.(of) ?? `none-${call.key}`),
      );
      return [...said.slice(turn % 2), ...calls, usage];
    }
    if (task.end === "fail") return { error: new Error(`${mark} broke`) };
    // Results are numbered as they arrive, so only an agent without children can know its numbers.
    const cites = childCalls(task).length === 0 ? " [^1]" : "";
    return [{ text: [`${mark} It is`, ` done.${cites}`] }, usage];
  });
}

type PromptMessage = ScriptedRequest["prompt"][number];

function keyIn(message: PromptMessage | undefined): string | undefined {
  if (message?.role !== "user") return undefined;
  for (const part of message.content) {
    const found = part.type === "text" && /^Do (\S+)\.$/.exec(part.text);
    if (found) return found[1];
  }
  return undefined;
}

const seconds = { sync: 600, background: 0, promoted: 1 } as const;

/** Converts a planned call to a model's call. */
function callOf(call: CallPlan, taskId: (key: string) => string): ScriptedPart {
  const id = call.key;
  const number = numberOf(id);
  switch (call.type) {
    case "work":
    case "ask":
      return { id, call: call.type, input: { who: whoseCall(id), n: call.n, number } };
    case "hold":
    case "stuck":
      return { id, call: call.type, input: { who: whoseCall(id), n: 0, number } };
    case "list":
      return { id, call: number % 32 ? "task_list" : "agent_list" };
    case "spawn":
      return {
        id,
        call: "agent_spawn",
        input: {
          agent_id: call.task.kind,
          task: inputFor(id),
          label: id,
          timeout_seconds: seconds[call.wait],
        },
      };
    case "send":
      return {
        id,
        call: "agent_send",
        input: { label: call.to, message: inputFor(id), timeout_seconds: seconds[call.wait] },
      };
    case "output":
      return {
        id,
        call: "task_output",
        input: { task_id: taskId(call.of), block: call.block, timeout: 500_000 + number },
      };
    case "wait":
      return {
        id,
        call: "task_wait",
        input: {
          ...(call.of !== "all" && { task_ids: call.of.map(taskId) }),
          timeout_seconds: 500 + number,
        },
      };
    case "cancel":
      return { id, call: "task_cancel", input: { task_id: taskId(call.of) } };
  }
}

/** Makes the input of each call unique, because repeated calls would be stopped as a loop. */
function numberOf(key: string): number {
  const [turn = 0, index = 0] = key.split(".").slice(-2).map(Number);
  return turn * 16 + index;
}

/** Finds the task of a call. */
function whoseCall(key: string): string {
  return key.split(".").slice(0, -2).join(".");
}

/** Reads the id of a background task from the result of the call that started it. */
function taskIdIn(prompt: readonly PromptMessage[], key: string): string | undefined {
  for (const message of prompt) {
    if (message.role !== "tool") continue;
    for (const part of message.content) {
      if (part.type !== "tool-result" || part.toolCallId !== key) continue;
      const text = "value" in part.output ? String(part.output.value) : "";
      return toldTaskId(text);
    }
  }
  return undefined;
}

/** Reads the task id in a result. */
export function toldTaskId(text: string): string | undefined {
  return /^task_id: (\S+)$/m.exec(text)?.[1];
}

/** The behaviour of tools that depends on the stage. */
export interface CastTools {
  readonly onCall: (callId: string) => void;
  /** Resolves after the caller's timeout. */
  readonly hold: (context: ToolContext) => Promise<void>;
}

/** The tools of every agent of a tree; their results name the call. */
export function castTools({ onCall, hold }: CastTools): readonly Tool[] {
  const input = z.object({ who: z.string(), n: z.number(), number: z.number() });
  type Given = z.infer<typeof input>;
  const ways: Record<string, (given: Given, context: ToolContext) => Promise<string>> = {
    async work({ who, n }, { emit, signal }) {
      emit(`${markOf(who)} at work. `);
      for (let i = 0; i < n; i++) {
        await turns(1);
        signal.throwIfAborted();
      }
      if (n === 4) throw new Error(`${markOf(who)} no`);
      return `${markOf(who)} worked`;
    },
    ask: async ({ who }) => `${markOf(who)} asked`,
    async hold({ who }, context) {
      await hold(context);
      return `${markOf(who)} held`;
    },
    stuck: (_, { signal }) =>
      new Promise((_, reject) => {
        if (signal.aborted) reject(signal.reason as Error);
        signal.addEventListener("abort", () => reject(signal.reason as Error));
      }),
  };
  return Object.entries(ways).map(([name, way]) =>
    tool({
      name,
      description: `Does ${name}.`,
      input,
      needsApproval: name === "ask",
      citable: name === "work",
      execute(given, context) {
        onCall(context.callId);
        return way(given, context);
      },
    }),
  );
}

/** The maxIters of an agent kind, if it is not the default. */
export function maxItersOf(kind: TaskPlan["kind"]): number | undefined {
  return kind === "short" ? 1 : undefined;
}

/** Agents with subagents of the same names, down to the deepest level. */
export function declarations(level = 1): readonly SubagentDeclaration[] {
  const names: readonly Kind[] = ["alpha", "beta", "short"];
  return names.map((name) => {
    const maxIters = maxItersOf(name);
    return {
      name,
      description: `Does what ${name} does.`,
      ...(maxIters !== undefined && { maxIters }),
      ...(level < 3 && { leaf: false, subagents: declarations(level + 1) }),
    };
  });
}
