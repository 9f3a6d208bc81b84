import { cite, evidenceIn, withoutFrame } from "./passages.ts";
import type { Move, OfferedTool, View } from "./view.ts";
import { stemsOf, termsOf, wordsOf } from "./words.ts";

const selfDescription =
  "I am demo:analyst, a small deterministic program in the shape of a language model. I know nothing by myself: I search, read and cite with the tools I have, and delegate work to other agents.";

/** Answers when no role fits. */
export const unableToHelp: Move = {
  text: `${selfDescription} None of my tools fits your request.`,
};

/** Says what it is when the question asks for that. */
export function introduceSelf({ calls, question }: View): Move | undefined {
  const isAsked = /\b(?:who|what) are you\W*$|\byour name\b|\bare you (?:an? \w+|human|real)\W*$/i;
  return calls.length === 0 && isAsked.test(question) ? { text: selfDescription } : undefined;
}

/** Small talk and its answers; a message is small talk if it has nothing else in it. */
const smallTalk: readonly (readonly [said: RegExp, reply: string])[] = [
  [
    /^(?:hi|hello|hey|hiya|howdy|yo|greetings|good (?:morning|afternoon|evening|day))(?: (?:there|all|again|everyone|everybody|team|\p{Lu}\p{Ll}+))?$/iu,
    "Hello! Ask me a question, and I look for the answer in the files.",
  ],
  [
    /^(?:hi |hello |hey )?how (?:are you|is it going|do you do)(?: (?:today|doing))?$/i,
    "Fine, thank you. What would you like to know?",
  ],
  [
    /^(?:many |ok |great )?(?:thanks?|thank you|thx|cheers)(?: (?:you|a lot|so much|very much|again))?$/i,
    "You are welcome.",
  ],
  [/^(?:bye|goodbye|see you(?: later)?|good night|ciao)$/i, "Goodbye!"],
  [
    /^(?:help(?: me)?|what can you do(?: for me)?|what do you do|how does this work)$/i,
    "Ask me a question. I split it into parts, let other agents look for them in the files, and answer with the source of each sentence.",
  ],
  [
    /^(?:ok(?:ay)?|cool|nice|great|good|fine|wow|perfect|yes|no|sure|right|test|ping|haha)$/i,
    "All right. What would you like to know?",
  ],
];

/** Answers small talk itself, without a subagent. */
export function chat({ calls, question }: View): Move | undefined {
  const text = calls.length > 0 ? undefined : smallTalkReply(question);
  return text === undefined ? undefined : { text };
}

/** The answer to small talk; undefined for any other message. */
export function smallTalkReply(message: string): string | undefined {
  if (message.length > 80) return undefined;
  const said = message
    .replace(/[^\p{L}' ]+/gu, " ")
    .replace(/ +/g, " ")
    .trim();
  return smallTalk.find(([pattern]) => pattern.test(said))?.[1];
}

const foreignWords =
  /^(?:warum|wie|was|wer|wo|wann|ist|sind|der|die|das|und|ein|eine|nicht|pourquoi|comment|quel|quelle|est|sont|les|des|une|que|qui|dans|por|qué|porque|cómo|como|cuál|dónde|los|las|una|es|son|el|perché|che|cosa|sono|gli|della|waarom|hoe|wat|zijn|het|een)$/i;
const englishWords =
  /^(?:the|is|are|was|were|how|why|what|when|where|who|which|do|does|did|of|in|on|to|and|a|an|i|you)$/i;

/** Asks for English when a question is in another language, which the model cannot search for. */
export function askForEnglish({ calls, question }: View): Move | undefined {
  if (calls.length > 0) return undefined;
  const words = wordsOf(question);
  const isLatin = words.length === 0 || /\p{Script=Latin}|\p{N}/u.test(question);
  const foreign = words.filter((word) => foreignWords.test(word)).length;
  const english = words.filter((word) => englishWords.test(word)).length;
  if (isLatin && (foreign < 2 || foreign <= english)) return undefined;
  return { text: "I search English texts word by word. Please ask in English." };
}

/** Summarizes the findings so far when no tool may be called any more. */
export function summarizeFindings(view: View): Move | undefined {
  if (view.tools.length > 0 || view.calls.length === 0) return undefined;
  const evidence = evidenceIn(view);
  const findings = evidence.map(({ statement }) => `- ${cite(statement, evidence)}`);
  if (findings.length === 0) return { text: "I had to stop before I found anything." };
  return { text: ["I had to stop. I have found this so far:", ...findings].join("\n") };
}

/** Calls the tool whose name and description share most terms with the question, then reports the result. */
export function callMatchingTool(view: View): Move | undefined {
  const last = view.calls.at(-1);
  if (last !== undefined) {
    return {
      text: last.isError ? `${last.name} failed: ${last.output}` : withoutFrame(last.output),
    };
  }
  const terms = termsOf(view.question);
  const [best] = view.tools
    .map((tool) => {
      const stems = stemsOf(`${tool.name.replaceAll("_", " ")} ${tool.description}`);
      return { tool, fit: terms.filter(({ stem }) => stems.has(stem)).length };
    })
    .filter(({ fit }) => fit > 0)
    .sort((a, b) => b.fit - a.fit);
  if (best === undefined) return undefined;
  const input = fillInput(best.tool, { title: view.question, text: view.question });
  return {
    thinking: `${best.tool.name} fits this question.`,
    calls: [{ name: best.tool.name, input }],
  };
}

type Material = { readonly title: string; readonly text: string };
type PropertySchema = { readonly type?: unknown; readonly enum?: readonly unknown[] };

/** Fills a tool's input from the names and types of its properties. */
export function fillInput(tool: OfferedTool, material: Material): Record<string, unknown> {
  const { properties = {}, required = [] } = tool.inputSchema as {
    properties?: Readonly<Record<string, PropertySchema>>;
    required?: readonly string[];
  };
  const isTextual = /title|question|query|content|body|text|markdown|report/i;
  const input: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(properties)) {
    const value = valueFor(name, schema, material);
    const isWanted = required.includes(name) || isTextual.test(name);
    if (value !== undefined && isWanted) input[name] = value;
  }
  return input;
}

function valueFor(name: string, schema: PropertySchema, { title, text }: Material): unknown {
  const { type, enum: choices } = schema;
  if (choices !== undefined) {
    return choices.find((choice) => text.toLowerCase().includes(String(choice))) ?? choices[0];
  }
  if (type === "number" || type === "integer") {
    return Number(/-?\d+(?:\.\d+)?/.exec(text)?.[0] ?? 1);
  }
  if (type === "boolean") return true;
  if (type !== "string") return undefined;
  if (/title|subject|name|question|query/i.test(name)) return title;
  if (/content|body|text|markdown|report|message|prompt/i.test(name)) return text;
  if (/path|file/i.test(name)) return /[\w-]+(?:\/[\w.-]+)*\.\w+/.exec(text)?.[0] ?? title;
  // For a place, a person or a thing: a capitalized name in the question, or else its last word.
  const capitalized = text.match(/(?<=\S\s)\p{Lu}[\p{L}-]+(?:\s\p{Lu}[\p{L}-]+)*/u)?.[0];
  return capitalized ?? text.match(/[\p{L}\p{N}-]+/gu)?.at(-1);
}
