export {
  type ApprovalDecision,
  type ChatTransportOptions,
  type RivuletChatTransport,
  rivuletChatTransport,
  withDecision,
} from "./adapters/links.ts";
