import { RivuletError } from "../../protocol/error.ts";
import { isRecord } from "../plain.ts";
import { toPrompt } from "./prompt.ts";
import type { LanguageModel } from "./resolve.ts";
import { supportsResponseFormat } from "./response-format.ts";
import type { TurnRequest } from "./turn.ts";

/** A request in the words of the AI SDK. Tools of the provider stand beside the agent's own, and who chooses one is heard. */
export function callOptions(model: LanguageModel, request: TurnRequest): Record<string, unknown> {
  const { messages, system, tools, toolChoice = "auto", responseSchema } = request;
  const { tools: _, toolChoice: chosen = toolChoice, ...options } = request.options;
  const own = tools.map(({ name, description, inputSchema }) => ({
    type: "function",
    name,
    description,
    inputSchema,
  }));
  const offered = [...own, ...providerTools(request.options)];
  return {
    ...options,
    prompt: toPrompt(messages, system, model.specificationVersion),
    // A choice among no tools is refused by providers.
    ...(offered.length > 0 && { tools: offered, toolChoice: choiceOf(chosen) }),
    ...(responseSchema &&
      supportsResponseFormat(model, { tools: tools.length > 0 }) && {
        responseFormat: { type: "json", ...responseSchema },
      }),
  };
}

/** The tools among call options: those that the provider itself knows, such as a web search. */
export function providerTools({
  tools = [],
}: Readonly<Record<string, unknown>>): readonly unknown[] {
  if (Array.isArray(tools) && tools.every(isNamed)) return tools;
  throw new RivuletError("invalid_settings", "The tools of the model's options are none.", {
    hint: 'For example: modelOptions: { tools: [{ type: "provider", id: "openai.web_search", name: "web_search", args: {} }] }; your own go to the agent.',
  });
}

function isNamed(tool: unknown): boolean {
  return isRecord(tool) && typeof tool.type === "string" && typeof tool.name === "string";
}

/** `"required"` is short for `{ type: "required" }`. */
function choiceOf(choice: unknown): unknown {
  return typeof choice === "string" ? { type: choice } : choice;
}

/** Whether call options forbid all tools. */
export function forbidsTools({ toolChoice }: Readonly<Record<string, unknown>>): boolean {
  return toolChoice === "none" || (isRecord(toolChoice) && toolChoice.type === "none");
}
