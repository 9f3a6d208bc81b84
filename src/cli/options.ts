import { parseArgs } from "node:util";
import { RivuletError } from "../protocol/error.ts";
import { sampleWorkspace } from "./sample-team.ts";

/** What the command line asks for. */
export interface Options {
  readonly question: string;
  readonly model: string;
  /** Who chose the model. */
  readonly modelFrom: "default" | "--model" | "RIVULET_MODEL";
  readonly workspace: string;
  readonly sessionId?: string;
  readonly replay?: string;
  readonly yes: boolean;
  readonly json: boolean;
  readonly help: boolean;
}

const defaultQuestion = "How do river deltas form, and why are many of them shrinking?";
const defaultModel = "demo:analyst";

/** What `--help` says. */
export const usage = `Puts a question to a team of agents and shows them at work.

  npm start                          a question about the sample library (${defaultQuestion})
  npm start -- "your question"       another one; the library is sample/workspace/library

  --model provider:id     a real model in place of ${defaultModel}; so does RIVULET_MODEL. It needs the provider's key.
  --yes                   approve whatever the agents ask for. Without a terminal it is denied otherwise.
  --session id            go on with a session; it is kept in .rivulet/rivulet.db. Without it nothing is kept.
  --workspace folder      another folder, with an AGENTS.md and subagents/*.md of its own
  --json                  print the one document that the run folds into, and nothing else (npm start --silent -- --json)
  --replay file.jsonl     show a recorded run: one event per line

Ctrl-C cancels the run, a second one leaves at once.
`;

/** Reads the command line and the environment. */
export function readOptions(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Options {
  const { values, positionals } = parse(args);
  const { model, session, workspace = sampleWorkspace, replay } = values;
  const { RIVULET_MODEL: fromEnvironment } = environment;
  return {
    question: positionals.join(" ").trim() || defaultQuestion,
    model: model ?? (fromEnvironment || defaultModel),
    modelFrom: model ? "--model" : fromEnvironment ? "RIVULET_MODEL" : "default",
    workspace,
    ...(session !== undefined && { sessionId: session }),
    ...(replay !== undefined && { replay }),
    yes: values.yes ?? false,
    json: values.json ?? false,
    help: values.help ?? false,
  };
}

/** Keys by their name in the environment, each with a model that it is good for. */
const keys: Readonly<Record<string, string>> = {
  OPENAI_API_KEY: "openai:gpt-5-mini",
  ANTHROPIC_API_KEY: "anthropic:claude-sonnet-4-5",
  GOOGLE_GENERATIVE_AI_API_KEY: "google:gemini-2.5-flash",
  DEEPSEEK_API_KEY: "deepseek:deepseek-chat",
  GROQ_API_KEY: "groq:llama-3.3-70b-versatile",
  MISTRAL_API_KEY: "mistral:mistral-small-latest",
  XAI_API_KEY: "xai:grok-4",
};

/** What is said about the model: which it is, and how to use a key that is there and is not used. */
export function modelLines(
  { model, modelFrom }: Pick<Options, "model" | "modelFrom">,
  environment: Readonly<Record<string, string | undefined>>,
): readonly string[] {
  if (modelFrom !== "default") return [`model     ${model} (from ${modelFrom})`];
  const found = Object.keys(keys).filter((name) => environment[name]);
  return [
    `model     ${model}, a built-in deterministic program: no key, no network`,
    ...found.map(
      (name) =>
        `          ${name} is set and stays unused. To use it: npm start -- --model ${keys[name]}, or set RIVULET_MODEL`,
    ),
  ];
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        model: { type: "string" },
        session: { type: "string" },
        workspace: { type: "string" },
        replay: { type: "string" },
        yes: { type: "boolean" },
        json: { type: "boolean" },
        help: { type: "boolean" },
      },
    });
  } catch (cause) {
    // Its first sentence says what is wrong; the rest is about a case that is not ours.
    const [problem] = (cause as Error).message.split(". ", 1);
    throw new RivuletError("invalid_arguments", `${problem}.`, {
      hint: "npm start -- --help lists what there is.",
      cause,
    });
  }
}
