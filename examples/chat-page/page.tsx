// A page on `useChat`: by the adapter of the server, or with `?by=protocol` over Rivulet's own protocol.
import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  type UIMessage,
} from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";
import { rivuletChatTransport, withDecision } from "rivulet/chat-transport";
import { emptyTree, reduce, type TaskEvent, type Tree } from "rivulet/protocol";

const isNative = new URLSearchParams(location.search).get("by") === "protocol";
const transport = isNative
  ? rivuletChatTransport({ url: location.origin, agent: "lead" })
  : new DefaultChatTransport<UIMessage>({ api: "/api/chat" });
location.hash ||= crypto.randomUUID(); // a reload opens the same chat

/** The texts of all nested agents, live. */
function Children({ tree }: { tree: Tree }) {
  const children = Object.values(tree.tasks).filter(({ source }) => source);
  return children.map(({ id, agentId, status, output }) => {
    const blocks = output.flatMap((item) => (item.type === "message" ? item.block_list : []));
    const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join("");
    return (
      <section key={id} title={`${agentId}: ${status}`}>
        {text}
      </section>
    );
  });
}

function Page() {
  const [tree, setTree] = useState(emptyTree());
  const chat = useChat({
    id: location.hash.slice(1),
    transport,
    resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onData: ({ type, data }) => {
      if (type === "data-task-event")
        setTree((before) => reduce(before, data as TaskEvent, { filtered: true }));
    },
  });
  const { messages, sendMessage, addToolApprovalResponse, setMessages, status } = chat;
  const decide = (id: string) => {
    setMessages((all) => withDecision(all, id, { decision: "approve" }));
    void sendMessage();
  };
  const parts = (message: UIMessage) =>
    message.parts.map((part, at) => {
      const key = `${message.id} ${at}`;
      if (part.type === "text") return <p key={key}>{part.text}</p>;
      if (part.type === "dynamic-tool" && part.state === "approval-requested") {
        const approve = () => addToolApprovalResponse({ id: part.approval.id, approved: true });
        return <input key={key} type="button" value={part.toolName} onClick={approve} />;
      }
      if (part.type !== "data-approval") return null;
      const { name, decision } = part.data as { name: string; decision?: string };
      const onClick = () => decide(part.id ?? "");
      return decision ? null : <input key={key} type="button" value={name} onClick={onClick} />;
    });
  const onSend = (form: FormData) => void sendMessage({ text: String(form.get("text")) });
  return (
    <form action={onSend} title={status}>
      {messages.map((message) => (
        <article key={message.id} title={message.role}>
          {parts(message)}
        </article>
      ))}
      <Children tree={tree} />
      <input name="text" />
    </form>
  );
}

createRoot(document.body).render(<Page />);
