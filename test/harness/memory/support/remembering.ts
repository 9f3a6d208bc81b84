import { HarnessAgent, type HarnessAgentOptions, memoryStore } from "../../../../src/index.ts";
import { type ScriptedRequest, scriptedModel, type TurnFunction } from "../../../../src/testing.ts";

/** The texts of a request, joined. */
export function textOf({ prompt }: ScriptedRequest): string {
  return prompt
    .flatMap(({ content }) =>
      typeof content === "string"
        ? [content]
        : content.flatMap((part) => (part.type === "text" ? [part.text] : [])),
    )
    .join("\n");
}

/** Which of the memory's calls a request is. */
export function purposeOf({ prompt: [system] }: ScriptedRequest): "distill" | "merge" | "reply" {
  const text = typeof system?.content === "string" ? system.content : "";
  if (text.includes("Write down the facts")) return "distill";
  return text.includes("Write the new file") ? "merge" : "reply";
}

const dataOf = (request: ScriptedRequest) =>
  textOf({ ...request, prompt: request.prompt.filter(({ role }) => role === "user") });

/** Writes down every line of the user that starts with "Note:". */
const noteFacts: TurnFunction = (request) => {
  const notes = [...dataOf(request).matchAll(/^(?:user: )?Note: (.+)$/gm)];
  return notes.length > 0 ? notes.map(([, fact]) => `- ${fact}`).join("\n") : "NOTHING";
};

/** Merges by adding all list items of the file and the notes, each once. */
const mergeFacts: TurnFunction = (request) => {
  const items = [...dataOf(request).matchAll(/^- .+$/gm)];
  return ["# Facts", "", ...new Set(items.map(([item]) => item))].join("\n");
};

/** A model that answers, distils and merges by rule. */
export function rememberingModel(
  answers: Partial<Record<"distill" | "merge" | "reply", TurnFunction>> = {},
) {
  const all = { distill: noteFacts, merge: mergeFacts, reply: () => "Noted.", ...answers };
  return scriptedModel((request) => all[purposeOf(request)](request));
}

/** An agent that remembers, and its model. */
export function rememberingAgent(
  workspace: string,
  options: Partial<HarnessAgentOptions> = {},
  answers: Parameters<typeof rememberingModel>[0] = {},
) {
  const model = rememberingModel(answers);
  const warnings: string[] = [];
  const agent = new HarnessAgent({
    ...{ name: "lead", model, store: memoryStore(), workspace, subagents: false, memory: {} },
    onWarning: (message) => warnings.push(message),
    ...options,
  });
  return { agent, model, warnings };
}
