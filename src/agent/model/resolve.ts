import type { LanguageModelV2, LanguageModelV3, LanguageModelV4 } from "@ai-sdk/provider";
import { RivuletError } from "../../protocol/error.ts";
import { nearest } from "../nearest.ts";
import { demoModel } from "./demo.ts";

/** A language model object of the AI SDK, in any of the versions of its interface that are in use. */
export type LanguageModel = LanguageModelV2 | LanguageModelV3 | LanguageModelV4;

/** A model object, a "provider:id", or several of them, of which the later ones step in when the earlier ones fail. */
export type Model = LanguageModel | `${string}:${string}` | readonly Model[];

/** Makes a model out of the part of an id that follows the provider's name. */
type MakeModel = (modelId: string) => LanguageModel | Promise<LanguageModel>;

/** Providers whose package exports a function from model id to model, by the name of that function. */
const packages: Readonly<Record<string, string>> = {
  alibaba: "alibaba",
  "amazon-bedrock": "bedrock",
  anthropic: "anthropic",
  azure: "azure",
  cohere: "cohere",
  deepseek: "deepseek",
  google: "google",
  "google-vertex": "vertex",
  groq: "groq",
  mistral: "mistral",
  moonshotai: "moonshotai",
  openai: "openai",
  xai: "xai",
};

/** Providers that need more than a package and the name of its function. */
const builtIn: Readonly<Record<string, MakeModel>> = {
  demo: (modelId) => demoModel(modelId),
  "openai-compatible": openaiCompatible,
};

const specificationVersions: readonly unknown[] = ["v2", "v3", "v4"];

/** Throws if this cannot be a model: `invalid_model`, or `unknown_provider` for an id that names none. */
export function checkModel(model: unknown): asserts model is Model {
  if (typeof model === "string") {
    providerOf(model);
  } else if (Array.isArray(model)) {
    if (model.length === 0) throw invalidModel("A list of models is empty.");
    for (const entry of model) checkModel(entry);
  } else if (!isLanguageModel(model)) {
    const version = (model as { specificationVersion?: unknown } | null)?.specificationVersion;
    throw invalidModel(
      version === undefined
        ? "This is not a model."
        : `A model has version ${JSON.stringify(version)} of the AI SDK's interface.`,
    );
  }
}

/** The models in the order in which they are tried: lists within lists are laid out flat. */
export function flattenModels(model: Model): readonly (LanguageModel | string)[] {
  return isList(model) ? model.flatMap(flattenModels) : [model];
}

/** The model that an id names, its provider's package loaded on the way; an object is already what it is. */
export async function resolveModel(model: LanguageModel | string): Promise<LanguageModel> {
  if (typeof model !== "string") return model;
  const { provider, modelId } = providerOf(model);
  const make = builtIn[provider];
  if (make !== undefined) return make(modelId);
  const name = packages[provider] as string;
  const exported = (await load(`@ai-sdk/${provider}`))[name];
  if (typeof exported !== "function") {
    throw new RivuletError("provider_not_installed", `@ai-sdk/${provider} has no "${name}".`, {
      hint: `Install a current version: npm i @ai-sdk/${provider}@latest`,
    });
  }
  return (exported as MakeModel)(modelId);
}

/** What an id says: the provider's name stands before the first colon, all after it is the provider's own. */
export function providerOf(id: string): { readonly provider: string; readonly modelId: string } {
  const colon = id.indexOf(":");
  const provider = id.slice(0, Math.max(colon, 0));
  const modelId = id.slice(colon + 1);
  if (provider === "" || modelId === "") {
    throw invalidModel(`${JSON.stringify(id)} does not name a provider and a model.`);
  }
  if (!Object.hasOwn(packages, provider) && !Object.hasOwn(builtIn, provider)) {
    throw unknownProvider(provider);
  }
  return { provider, modelId };
}

function unknownProvider(provider: string): RivuletError<"unknown_provider"> {
  const known = [...Object.keys(packages), ...Object.keys(builtIn)].sort();
  const near = nearest(provider, known);
  const another = /^[a-z][a-z0-9-]*$/.test(provider)
    ? `, such as one of @ai-sdk/${provider} (npm i @ai-sdk/${provider})`
    : "";
  const advice =
    near.length > 0
      ? `Did you mean ${near.join(" or ")}?`
      : `For another one pass its AI SDK model object${another}.`;
  return new RivuletError("unknown_provider", `There is no provider "${provider}".`, {
    hint: `Known providers: ${known.join(", ")}. ${advice}`,
  });
}

async function openaiCompatible(modelId: string): Promise<LanguageModel> {
  const baseURL = process.env.OPENAI_COMPATIBLE_BASE_URL;
  if (baseURL === undefined || baseURL === "") {
    throw new RivuletError(
      "invalid_model",
      "An OpenAI-compatible model needs to know its server.",
      {
        hint: "Set OPENAI_COMPATIBLE_BASE_URL (and OPENAI_COMPATIBLE_API_KEY), or pass createOpenAICompatible({ … })(id).",
      },
    );
  }
  const { createOpenAICompatible } = (await load("@ai-sdk/openai-compatible")) as {
    createOpenAICompatible: (settings: Record<string, unknown>) => MakeModel;
  };
  return createOpenAICompatible({
    name: "openai-compatible",
    baseURL,
    apiKey: process.env.OPENAI_COMPATIBLE_API_KEY,
    includeUsage: true,
  })(modelId);
}

async function load(name: string): Promise<Record<string, unknown>> {
  try {
    return (await import(name)) as Record<string, unknown>;
  } catch (cause) {
    // Anything else that goes wrong while the package loads is the package's own fault, and says so itself.
    if (!isMissing(cause, name)) throw cause;
    throw new RivuletError("provider_not_installed", `The package ${name} is not installed.`, {
      hint: `npm i ${name}`,
      cause,
    });
  }
}

function isMissing(error: unknown, name: string): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return code === "ERR_MODULE_NOT_FOUND" && String(message).includes(name);
}

function isLanguageModel(value: unknown): value is LanguageModel {
  if (typeof value !== "object" && typeof value !== "function") return false;
  const model = value as Partial<LanguageModel> | null;
  return (
    specificationVersions.includes(model?.specificationVersion) &&
    typeof model?.doStream === "function"
  );
}

function isList(model: Model): model is readonly Model[] {
  return Array.isArray(model);
}

function invalidModel(message: string): RivuletError<"invalid_model"> {
  return new RivuletError("invalid_model", message, {
    hint: 'Pass an AI SDK model object (specification v2, v3 or v4), an id such as "openai:gpt-5-mini", or a list of them.',
  });
}
