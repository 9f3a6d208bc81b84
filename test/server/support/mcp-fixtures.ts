import { z } from "zod";
import {
  type Agent,
  memoryStore,
  ReActAgent,
  type ToolContext,
  tool,
  toolAgent,
} from "../../../src/index.ts";
import type { ServeOptions } from "../../../src/server.ts";
import { scriptedModel } from "../../../src/testing.ts";

type Offer = NonNullable<ServeOptions["mcp"]>;

const png =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const wav = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";
const image = { type: "image", source: { data: png, mimeType: "image/png" } } as const;
const audio = { type: "audio", source: { data: wav, mimeType: "audio/wav" } } as const;
const note = (text: string, mimeType = "text/plain") =>
  ({
    type: "file",
    source: { data: Buffer.from(text).toString("base64"), mimeType },
  }) as const;

/** The agents that the scenarios of the conformance suite call, under the names that it gives them. */
export function conformanceAgents(): readonly Agent[] {
  const store = memoryStore();
  const serve = (name: string, execute: (context: ToolContext) => unknown) => {
    const description = `The fixture ${name}.`;
    const input = z.looseObject({ message: z.string().optional() });
    const made = tool({ name, description, input, execute: (_, context) => execute(context) });
    return toolAgent(made, { store });
  };

  /** A question that a subagent asks: the name of the call, the question, and the fields of its form. */
  type Question = readonly [name: string, question: string, properties: object];

  /** A tool whose subagent asks questions, one after the other, and then says something. */
  function asks(name: string, questions: readonly Question[], says: string) {
    const names = [...new Set(questions.map(([call]) => call))];
    const asker = new ReActAgent({
      name: "asker",
      store,
      tools: names.map((call) =>
        tool({
          name: call,
          description: "Asks the user.",
          input: z.object({ question: z.string(), schema: z.looseObject({}) }),
          execute: ({ question }, context) => context.suspend(question),
        }),
      ),
      model: scriptedModel(
        [
          ...questions.map(([call, question, properties]) => {
            const schema = { type: "object", properties, required: Object.keys(properties) };
            return [{ call, input: { question, schema } }];
          }),
          says,
        ],
        { by: "prompt" },
      ),
    });
    return serve(name, async (context) => {
      const { reply } = await context.runChild(asker, "Ask.", { agentId: "asker" });
      return reply?.text ?? "";
    });
  }
  const text = { type: "string" };
  const name: Question = ["user_name", "What is your name?", { name: text }];
  return [
    serve("test_simple_text", () => "This is a simple text response for testing."),
    serve("test_image_content", () => [image]),
    serve("test_audio_content", () => [audio]),
    serve("test_embedded_resource", () => [note("This is an embedded resource content.")]),
    serve("test_multiple_content_types", () => [
      { type: "text" as const, text: "Multiple content types test:" },
      image,
      note('{"test":"data","value":123}', "text/json"),
    ]),
    serve("test_error_handling", () => {
      throw new Error("This tool intentionally returns an error for testing");
    }),
    serve("test_tool_with_progress", (context) => {
      for (const progress of [0, 50, 100]) context.progress({ progress, total: 100 });
      return "done";
    }),
    serve("test_logging_tool", () => "This tool writes no log messages."),
    asks("test_streaming_elicitation", [name], "Hello."),
    asks("test_elicitation", [["ask", "Who?", { username: text, email: text }]], "Thanks."),
    asks(
      "test_elicitation_sep1034_defaults",
      [
        [
          "ask",
          "Your details?",
          {
            name: { ...text, default: "John Doe" },
            age: { type: "integer", default: 30 },
            score: { type: "number", default: 95.5 },
            status: { ...text, enum: ["active", "inactive", "pending"], default: "active" },
            verified: { type: "boolean", default: true },
          },
        ],
      ],
      "Elicitation completed.",
    ),
    asks(
      "test_elicitation_sep1330_enums",
      [["ask", "Choose.", enumForms]],
      "Elicitation completed.",
    ),
    asks("test_input_required_result_elicitation", [name], "Hello, Alice!"),
    asks(
      "test_input_required_result_request_state",
      [["confirm", "Please confirm", { ok: { type: "boolean" } }]],
      "state-ok",
    ),
    asks(
      "test_input_required_result_tampered_state",
      [["confirm", "Please confirm", { ok: { type: "boolean" } }]],
      "state-ok",
    ),
    asks(
      "test_input_required_result_multi_round",
      [
        ["step1", "Step 1: What is your name?", { name: text }],
        ["step2", "Step 2: What is your favorite color?", { color: text }],
      ],
      "Done.",
    ),
    asks("test_input_required_result_capabilities", [name], "Hello."),
  ];
}

const options = ["option1", "option2", "option3"];
const titled = (key: "oneOf" | "anyOf") => ({
  [key]: options.map((option, index) => ({ const: `value${index + 1}`, title: `${option}!` })),
});
const enumForms = {
  untitledSingle: { type: "string", enum: options },
  titledSingle: { type: "string", ...titled("oneOf") },
  legacyEnum: { type: "string", enum: ["opt1", "opt2"], enumNames: ["One", "Two"] },
  untitledMulti: { type: "array", items: { type: "string", enum: options } },
  titledMulti: { type: "array", items: titled("anyOf") },
};

/** The resources that the scenarios read. */
export const conformanceResources: NonNullable<Offer["resources"]> = [
  {
    ...{ uri: "test://static-text", name: "text", description: "A text.", mimeType: "text/plain" },
    read: () => "This is the content of the static text resource.",
  },
  {
    ...{ uri: "test://static-binary", name: "image", description: "An image." },
    mimeType: "image/png",
    read: () => Buffer.from(png, "base64"),
  },
  {
    ...{ uri: "test://template/{id}/data", name: "data", mimeType: "application/json" },
    read: ({ id }) => JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
  },
];

/** The prompts that the scenarios get. */
export const conformancePrompts: NonNullable<Offer["prompts"]> = [
  {
    name: "test_simple_prompt",
    description: "A prompt.",
    render: () => "This is a simple prompt for testing.",
  },
  {
    name: "test_prompt_with_arguments",
    description: "A prompt with arguments.",
    arguments: { arg1: "First test argument", arg2: "Second test argument" },
    render: ({ arg1, arg2 }) => `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`,
  },
  {
    name: "test_prompt_with_embedded_resource",
    description: "A prompt with a document.",
    arguments: { resourceUri: "URI of the resource to embed" },
    render: () => [
      {
        role: "user",
        content: [
          note("Embedded resource content for testing."),
          { type: "text", text: "Please process the embedded resource above." },
        ],
      },
    ],
  },
  {
    name: "test_prompt_with_image",
    description: "A prompt with an image.",
    render: () => [
      { role: "user", content: [image, { type: "text", text: "Please analyze the image above." }] },
    ],
  },
];
