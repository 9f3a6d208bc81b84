import { parseArgs } from "node:util";
import { RivuletError } from "../protocol/error.ts";
import { sampleWorkspace } from "./sample-team.ts";

/** The parsed command line. */
export interface Options {
  readonly question: string;
  readonly model: string;
  readonly modelFrom: "default" | "--model" | "RIVULET_MODEL";
  readonly workspace: string;
  readonly sessionId?: string;
  readonly replay?: string;
  readonly yes: boolean;
  readonly json: boolean;
  readonly help: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

const defaultQuestion = "How do river deltas form, and why are many of them shrinking?";
const defaultModel = "demo:analyst";

/** The output of `--help`. */
export const usage = `Asks a team of agents a question and shows their work.

  npm start                          asks about the sample library: ${defaultQuestion}
  npm start -- "your question"       asks your question; the library is sample/workspace/library

  --model provider:id     use this model instead of ${defaultModel}; requires the provider's API key. Also RIVULET_MODEL.
  --yes                   approve every request of the agents. Without it and without a terminal, requests are denied.
  --session id            continue a session; sessions are stored in .rivulet/rivulet.db. Without it, nothing is stored.
  --workspace folder      use another folder, with its own AGENTS.md and subagents/*.md
  --json                  print only the document of the run (npm start --silent -- --json)
  --replay file.jsonl     replay a recorded run, one event per line

Ctrl-C cancels the run; a second Ctrl-C exits at once.
`;

/** Reads the command line and the environment. */
export function readOptions(args: readonly string[], environment: Environment): Options {
  const { values, positionals } = parse(args);
  const { model, session: sessionId, workspace = sampleWorkspace, replay } = values;
  const { yes = false, json = false, help = false } = values;
  const { RIVULET_MODEL: fromEnvironment } = environment;
  return {
    question: positionals.join(" ").trim() || defaultQuestion,
    model: model ?? (fromEnvironment || defaultModel),
    modelFrom: model ? "--model" : fromEnvironment ? "RIVULET_MODEL" : "default",
    ...{ workspace, sessionId, replay, yes, json, help },
  };
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

/** Describes the model in use, and how to use API keys that are set but ignored. */
export function modelLines(
  { model, modelFrom }: Pick<Options, "model" | "modelFrom">,
  environment: Environment,
): readonly string[] {
  if (modelFrom !== "default") return [`model     ${model} (from ${modelFrom})`];
  const unused = Object.keys(keys).filter((name) => environment[name]);
  return [
    `model     ${model}, a built-in deterministic program: no API key, no network`,
    ...unused.map(
      (name) =>
        `          ${name} is set but not used. To use it: npm start -- --model ${keys[name]}, or set RIVULET_MODEL`,
    ),
  ];
}

function parse(args: readonly string[]) {
  const [text, flag] = [{ type: "string" }, { type: "boolean" }] as const;
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        model: text,
        session: text,
        workspace: text,
        replay: text,
        yes: flag,
        json: flag,
        help: flag,
      },
    });
  } catch (cause) {
    // Only the first sentence of Node's message applies here.
    const [problem] = (cause as Error).message.split(". ", 1);
    throw new RivuletError("invalid_arguments", `${problem}.`, {
      hint: "Run npm start -- --help for a list of options.",
      cause,
    });
  }
}
