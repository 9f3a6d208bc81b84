import { HarnessAgent, type HarnessAgentOptions, memoryStore } from "../../../../src/index.ts";
import {
  type Script,
  type ScriptedModel,
  type ScriptedRequest,
  scriptedModel,
} from "../../../../src/testing.ts";

/** Creates an agent with a scripted model, by default without subagents and with a memory store. */
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

/** The tool results in a request. */
export function toolTexts(request: ScriptedRequest | undefined): readonly string[] {
  return (request?.prompt ?? []).flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) =>
          part.type === "tool-result" && "value" in part.output ? [String(part.output.value)] : [],
        )
      : [],
  );
}

/** The names of the offered tools. */
export function toolNames(request: ScriptedRequest | undefined): readonly string[] {
  return (request?.tools ?? []).map(({ name }) => name);
}

/** The parts of the last user message. */
export function userParts(request: ScriptedRequest | undefined): readonly unknown[] {
  const last = request?.prompt.findLast(({ role }) => role === "user");
  return Array.isArray(last?.content) ? last.content : [];
}

/** The texts of all user messages. */
export function userTexts(request: ScriptedRequest | undefined): readonly string[] {
  return (request?.prompt ?? []).flatMap((message) =>
    message.role === "user"
      ? message.content.flatMap((part) => (part.type === "text" ? [part.text] : []))
      : [],
  );
}
