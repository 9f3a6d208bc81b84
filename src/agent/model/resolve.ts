import type { LanguageModelV2, LanguageModelV3, LanguageModelV4 } from "@ai-sdk/provider";
import { RivuletError } from "../../base/error.ts";
import { type Field, mismatch, nearest } from "../../base/options.ts";

/** A language model object of the AI SDK, in version 2, 3 or 4 of its interface. */
export type LanguageModel = LanguageModelV2 | LanguageModelV3 | LanguageModelV4;

/** A model object, `"provider:id"`, or a list in which each model is the fallback of the previous one. */
export type Model = LanguageModel | string | readonly Model[];

type SingleModel = Exclude<Model, readonly Model[]>;
/** Creates the model of an id without its provider. */
export type CreateModel = (modelId: string) => LanguageModel | Promise<LanguageModel>;

/** Providers whose package exports a function from model id to model, and the name of that function. */
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

/** Providers with a package of the AI SDK that is not loaded by name. */
const otherPackages =
  "baseten cerebras deepinfra fireworks huggingface perplexity togetherai vercel";
/** Servers with the API of OpenAI for which the AI SDK has no package. */
const openaiServers: Readonly<Record<string, string>> = {
  llamacpp: "http://localhost:8080/v1",
  lmstudio: "http://localhost:1234/v1",
  ollama: "http://localhost:11434/v1",
  openrouter: "https://openrouter.ai/api/v1",
  vllm: "http://localhost:8000/v1",
};

const builtIn = new Map<string, CreateModel>([["openai-compatible", openaiCompatible]]);

/** Adds a provider that is part of the package: ids that start with its name and a colon get their model from `create`. */
export function addProvider(name: string, create: CreateModel): void {
  builtIn.set(name, create);
}

const specificationVersions: readonly unknown[] = ["v2", "v3", "v4"];

/** Throws `invalid_model` if a value is not a model, and `unknown_provider` for an id with an unknown provider. */
export function checkModel(model: unknown): asserts model is Model {
  if (typeof model === "string") {
    providerOf(model);
  } else if (Array.isArray(model)) {
    if (model.length === 0) throw invalidModel("The list of models is empty.");
    for (const entry of model) checkModel(entry);
  } else if (!isLanguageModel(model)) {
    const version = (model as { specificationVersion?: unknown } | null)?.specificationVersion;
    throw invalidModel(
      version === undefined
        ? mismatch("model", "a model", model)
        : `A model implements version ${JSON.stringify(version)} of the AI SDK's interface.`,
    );
  }
}

/** The rule for a model. */
export const modelField: Field = {
  fits(value) {
    checkModel(value);
    return true;
  },
  expected: "a model",
  example: '"openai:gpt-5-mini"',
};

/** The models in the order in which they are tried, with nested lists flattened. */
export function flattenModels(model: Model): readonly SingleModel[] {
  return Array.isArray(model) ? model.flatMap(flattenModels) : [model as SingleModel];
}

/** The name of a model, `provider:id`; a list has that of its first model. */
export function modelName(model: Model): string {
  const [first] = flattenModels(model) as readonly [SingleModel];
  return typeof first === "string" ? first : `${first.provider}:${first.modelId}`;
}

/** The models of an agent. */
export interface ModelSettings {
  /** The model of a task and its fallbacks, in the order in which they are tried. */
  readonly models: readonly SingleModel[];
  /** The models that a call may choose, by name, each with its fallbacks; the first one is the default. */
  readonly choices: ReadonlyMap<string, readonly SingleModel[]>;
}

/** The settings of an agent with a model and others that it allows, which may include that model. */
export function modelSettings(model: Model, others: readonly Model[] = []): ModelSettings {
  const models = flattenModels(model);
  const choices = new Map<string, readonly SingleModel[]>();
  for (const other of others) {
    const name = modelName(other);
    if (choices.has(name)) throw invalidModel(`\`models\` names the model "${name}" twice.`);
    choices.set(name, flattenModels(other));
  }
  choices.delete(modelName(model));
  return { models, choices: new Map([[modelName(model), models], ...choices]) };
}

/** Whether all models are known to support a JSON Schema as response format; the AI SDK does not say. */
export function supportsResponseFormat(model: Model, options: { tools?: boolean } = {}): boolean {
  return flattenModels(model).every((entry) => hasResponseFormat(entry, options.tools ?? false));
}

function hasResponseFormat(model: LanguageModel | string, tools: boolean): boolean {
  // The OpenAI-compatible adapter takes this as an option.
  if ((model as { supportsStructuredOutputs?: unknown }).supportsStructuredOutputs === true) {
    return true;
  }
  // "openai.responses", "google.generative-ai"; in ids "openai:gpt-5-mini".
  const [provider] = (typeof model === "string" ? model : model.provider).split(/[.:]/, 1);
  if (provider === "openai") return true;
  // Google rejects a response format together with function calls.
  return provider === "google" && !tools;
}

/** Loads the provider's package and creates the model of an id; returns a model object unchanged. */
export async function resolveModel(model: LanguageModel | string): Promise<LanguageModel> {
  if (typeof model !== "string") return model;
  const { provider, modelId } = providerOf(model);
  const create = builtIn.get(provider);
  if (create !== undefined) return create(modelId);
  const name = packages[provider] as string;
  const exported = (await load(`@ai-sdk/${provider}`))[name];
  if (typeof exported !== "function") {
    throw new RivuletError(
      "provider_not_installed",
      `@ai-sdk/${provider} does not export "${name}".`,
      {
        hint: `Install a current version: npm i @ai-sdk/${provider}@latest`,
      },
    );
  }
  return (exported as CreateModel)(modelId);
}

/** Splits an id at its first colon. */
export function providerOf(id: string): { readonly provider: string; readonly modelId: string } {
  const colon = id.indexOf(":");
  const provider = id.slice(0, Math.max(colon, 0));
  const modelId = id.slice(colon + 1);
  if (provider === "" || modelId === "") {
    throw invalidModel(`The model id ${JSON.stringify(id)} must have the form "provider:model".`);
  }
  if (!Object.hasOwn(packages, provider) && !builtIn.has(provider)) {
    throw unknownProvider(provider);
  }
  return { provider, modelId };
}

function unknownProvider(provider: string): RivuletError<"unknown_provider"> {
  const providers = [...Object.keys(packages), ...builtIn.keys()].sort();
  const near = nearest(provider, providers);
  const url = Object.hasOwn(openaiServers, provider) ? openaiServers[provider] : undefined;
  const name = otherPackages.split(" ").includes(provider) ? `@ai-sdk/${provider}` : "";
  const source = name ? `from ${name} (npm i ${name})` : "(see https://ai-sdk.dev/providers)";
  const advice =
    url !== undefined
      ? `${provider} has the API of OpenAI: set OPENAI_COMPATIBLE_BASE_URL=${url} and use "openai-compatible:<model>".`
      : near.length > 0
        ? `Did you mean ${near.join(" or ")}?`
        : `Pass an AI SDK model object ${source}, or use "openai-compatible:<model>" for a server with the API of OpenAI.`;
  return new RivuletError("unknown_provider", `There is no provider "${provider}".`, {
    hint: `Known providers: ${providers.join(", ")}. ${advice}`,
  });
}

async function openaiCompatible(modelId: string): Promise<LanguageModel> {
  const baseURL = process.env.OPENAI_COMPATIBLE_BASE_URL;
  if (baseURL === undefined || baseURL === "") {
    throw new RivuletError("invalid_model", "An OpenAI-compatible model requires a base URL.", {
      hint: "Set OPENAI_COMPATIBLE_BASE_URL (and OPENAI_COMPATIBLE_API_KEY), or pass createOpenAICompatible({ … })(id).",
    });
  }
  const { createOpenAICompatible } = (await load("@ai-sdk/openai-compatible")) as {
    createOpenAICompatible: (settings: Record<string, unknown>) => CreateModel;
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
    const { code, message } = cause as { code?: unknown; message?: unknown };
    // An installed package may fail to load for other reasons.
    if (code !== "ERR_MODULE_NOT_FOUND" || !String(message).includes(name)) throw cause;
    const found = await loadFromProject(name);
    if (found) return found;
    throw new RivuletError("provider_not_installed", `The package ${name} is not installed.`, {
      hint: `Run npm i ${name}.`,
      cause,
    });
  }
}

/** Loads a package of the project in the current folder, which differs from this package's when that is linked. */
async function loadFromProject(name: string): Promise<Record<string, unknown> | undefined> {
  const [{ createRequire }, { pathToFileURL }] = await Promise.all([
    import("node:module"),
    import("node:url"),
  ]);
  let path: string;
  try {
    path = createRequire(`${process.cwd()}/package.json`).resolve(name);
  } catch {
    return undefined; // it is not installed there either
  }
  return (await import(pathToFileURL(path).href)) as Record<string, unknown>;
}

function isLanguageModel(value: unknown): value is LanguageModel {
  if (typeof value !== "object" && typeof value !== "function") return false;
  const model = value as Partial<LanguageModel> | null;
  return (
    specificationVersions.includes(model?.specificationVersion) &&
    typeof model?.doStream === "function"
  );
}

function invalidModel(message: string): RivuletError<"invalid_model"> {
  return new RivuletError("invalid_model", message, {
    hint: 'Pass an AI SDK model object (specification v2, v3 or v4), an id such as "openai:gpt-5-mini", or a list of them.',
  });
}
