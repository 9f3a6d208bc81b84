import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import {
  agentWith,
  type Model,
  modelSettings,
  resolveModel,
  settingsBehind,
} from "../agent/index.ts";
import { bindAgents, type ServeOptions, serveFields } from "../app/index.ts";
import { RivuletError } from "../base/error.ts";
import { readOptions } from "../base/options.ts";
import type { Agent, Store } from "../contract/index.ts";
import { configFiles, harnessAgentWith } from "../harness/index.ts";
import { usageError } from "./arguments.ts";
import type { Flags } from "./flags.ts";
import { defaultStore, offlineModel, sampleTeam, sampleWorkspace } from "./sample-team.ts";

/** The agents of a project and the store that they share. */
export interface Project {
  /** The options of `serve` that the config exports. */
  readonly options: ServeOptions;
  readonly agents: readonly Agent[];
  readonly store: Store;
  /** The path of the config; absent for the sample team. */
  readonly path?: string;
  /** Where the model comes from, for people. */
  readonly modelLines: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Loads the config of this folder, or the sample team if there is none. */
export async function loadProject(flags: Flags, environment: Environment): Promise<Project> {
  const path = flags.demo ? undefined : findConfig(flags.config);
  const model = flags.model ?? (environment.RIVULET_MODEL || undefined);
  const from = flags.model ? "--model" : "RIVULET_MODEL";
  if (path === undefined) {
    const named = model ?? offlineModel;
    await resolveModel(named);
    const { workspace = sampleWorkspace, postgres } = flags;
    const store = (postgres !== undefined && environment.DATABASE_URL) || defaultStore;
    const options = { agents: [sampleTeam({ model: named, workspace, store })] };
    const modelLines =
      model === undefined ? offlineLines(environment) : [`model     ${model} (from ${from})`];
    return { options, ...bindAgents(options), modelLines };
  }
  if (flags.workspace !== undefined)
    throw usageError(
      `--workspace is for the sample team, and ${path} has its own agents.`,
      "Set `workspace` of the agent in the config.",
    );
  const options = await readConfig(path);
  const bound = bindAgents(options);
  if (model === undefined) return { options, ...bound, path, modelLines: [] };
  const agents = await Promise.all(bound.agents.map((agent) => withModel(agent, model)));
  return { options, ...bound, agents, path, modelLines: [`model     ${model} (from ${from})`] };
}

/** The agent with another model; subagents that name a model of their own keep it. Throws if it cannot be loaded. */
export async function withModel(agent: Agent, name: string): Promise<Agent> {
  await resolveModel(name);
  const model = name as Extract<Model, string>;
  const { choices = [] } = settingsBehind(agent) ?? {};
  const [, ...others] = [...choices].map(([, allowed]) => allowed);
  return harnessAgentWith(agent, model) ?? agentWith(agent, modelSettings(model, others));
}

/** The path of the config; undefined if none was named and this folder has none. */
export function findConfig(named: string | undefined): string | undefined {
  if (named === undefined) return configFiles.map((name) => resolve(name)).find(existsSync);
  const path = resolve(named);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isFile()) return path;
  throw new RivuletError(
    "config_not_found",
    found ? `${named} is not a file.` : `There is no config at ${named}.`,
    { hint: "Pass the path of a module, or create one with rivulet init." },
  );
}

/** Loads and checks a config. */
async function readConfig(path: string): Promise<ServeOptions> {
  let module: { readonly default?: unknown };
  try {
    module = (await import(pathToFileURL(path).href)) as typeof module;
  } catch (cause) {
    throw cannotLoad(path, cause instanceof Error ? cause : new Error(String(cause)));
  }
  const { default: options } = module;
  if (typeof options !== "object" || options === null || Array.isArray(options) || "run" in options)
    throw new RivuletError("invalid_config", `${path} has no default export with agents.`, {
      hint: "Write: export default { agents: [assistant] };",
    });
  return readOptions(path, options as ServeOptions, serveFields);
}

function cannotLoad(path: string, cause: Error & { readonly code?: string }): RivuletError {
  const [problem = ""] = cause.message.split("\n", 1);
  // Node prints the place of a syntax error only in the stack.
  const place = /^(?:file:\/\/)?(\/.*:\d+)$/m.exec(cause.stack ?? "")?.[1] ?? path;
  const isPackage = cause.code === "ERR_MODULE_NOT_FOUND" && problem.includes("package");
  const hint =
    cause instanceof RivuletError
      ? cause.hint
      : isPackage
        ? "Install the package with npm install."
        : "Correct the file.";
  const message = `${place} cannot be loaded: ${problem.replace(/\.?$/, ".")}`;
  return new RivuletError("invalid_config", message, {
    ...(hint !== undefined && { hint }),
    cause,
  });
}

const keys: Readonly<Record<string, string>> = {
  OPENAI_API_KEY: "openai:gpt-5-mini",
  ANTHROPIC_API_KEY: "anthropic:claude-sonnet-4-5",
  GOOGLE_GENERATIVE_AI_API_KEY: "google:gemini-2.5-flash",
  DEEPSEEK_API_KEY: "deepseek:deepseek-chat",
  GROQ_API_KEY: "groq:llama-3.3-70b-versatile",
  MISTRAL_API_KEY: "mistral:mistral-small-latest",
  XAI_API_KEY: "xai:grok-4",
};

/** Describes the offline model, and how to use API keys that are set but ignored. */
export function offlineLines(environment: Environment): readonly string[] {
  const unused = Object.keys(keys).filter((name) => environment[name]);
  return [
    `model     ${offlineModel}, a built-in deterministic program: no API key, no network`,
    ...unused.map(
      (name) =>
        `          ${name} is set but not used. To use it: --model ${keys[name]}, or set RIVULET_MODEL`,
    ),
  ];
}
