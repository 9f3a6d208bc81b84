export {
  type AiMessage,
  type AiModelMessage,
  type AiUiMessage,
  fromAiMessages,
  toModelMessages,
  toUiMessages,
} from "./messages.ts";
export { type AiTool, type AiToolOptions, fromAiTools } from "./tools.ts";
