import type { LanguageModel, Model } from "./resolve.ts";
import { flattenModels } from "./resolve.ts";

/**
 * Whether a model (of a list: every one) keeps to a JSON schema by itself. The AI SDK's interface does not tell, so this
 * says yes only where it is known; where it says no, a tool that takes the answer serves as well.
 */
export function supportsResponseFormat(model: Model, options: { tools?: boolean } = {}): boolean {
  return flattenModels(model).every((entry) => isNative(entry, options.tools ?? false));
}

function isNative(model: LanguageModel | string, tools: boolean): boolean {
  // Models behind the OpenAI-compatible adapter are told by who sets them up.
  if ((model as { supportsStructuredOutputs?: unknown }).supportsStructuredOutputs === true) {
    return true;
  }
  // "openai.responses", "google.generative-ai"; in ids "openai:gpt-5-mini".
  const [provider] = (typeof model === "string" ? model : model.provider).split(/[.:]/, 1);
  if (provider === "openai") return true;
  // Google's models refuse a response format beside function calls.
  return provider === "google" && !tools;
}
