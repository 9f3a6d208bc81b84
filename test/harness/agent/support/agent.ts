import { HarnessAgent, type HarnessAgentOptions, memoryStore } from "../../../../src/index.ts";
import {
  type Script,
  type ScriptedModel,
  type ScriptedRequest,
  scriptedModel,
} from "../../../../src/testing/index.ts";

/** An agent that follows a script, without subagents and in memory unless told otherwise, and the model that it asks. */
export function agentWith(
  script: Script,
  options: Partial<HarnessAgentOptions> = {},
): { readonly agent: HarnessAgent; readonly model: ScriptedModel } {
  const model = scriptedModel(script);
  const defaults = { name: "lead", model, store: memoryStore(), subagents: false } as const;
  const agent = new HarnessAgent({ ...defaults, ...options });
  return { agent, model };
}

/** The system prompt of a request. */
export function systemOf(request: ScriptedRequest | undefined): string {
  const [first] = request?.prompt ?? [];
  return first?.role === "system" ? first.content : "";
}

/** What the tools have answered so far, in the words of the prompt. */
export function toolTexts(request: ScriptedRequest | undefined): readonly string[] {
  return (request?.prompt ?? []).flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) =>
          part.type === "tool-result" && "value" in part.output ? [String(part.output.value)] : [],
        )
      : [],
  );
}

/** The names of the tools on offer. */
export function toolNames(request: ScriptedRequest | undefined): readonly string[] {
  return (request?.tools ?? []).map(({ name }) => name);
}

/** The parts of what the user said last. */
export function userParts(request: ScriptedRequest | undefined): readonly unknown[] {
  const last = request?.prompt.findLast(({ role }) => role === "user");
  return Array.isArray(last?.content) ? last.content : [];
}
