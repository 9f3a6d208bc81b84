export { type AiMessage, fromAiMessages, toModelMessages, toUiMessages } from "./messages.ts";
export { type AiTool, type AiToolOptions, fromAiTools } from "./tools.ts";
