export type { AiMessage, AiModelMessage, AiUiMessage } from "./messages.ts";
export { fromAiMessages, toModelMessages, toUiMessages } from "./messages.ts";
export type { AiTool, AiToolOptions } from "./tools.ts";
export { fromAiTools } from "./tools.ts";
