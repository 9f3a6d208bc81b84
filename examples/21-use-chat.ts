// A page on `useChat` of the AI SDK, examples/chat-page/page.tsx: nested agents, approvals at any depth, reloads.
// Run it with: npm run example 21
// `OPEN=1 npm run example 21` keeps serving, so that you can open the page.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { DefaultChatTransport, readUIMessageStream, type UIMessage } from "ai";
import { agentTool, ReActAgent, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { bundlePage, listen, pageApp } from "./react-page/serve-page.ts";

const send = tool({
  name: "send",
  description: "Sends the letter.",
  needsApproval: true,
  execute: () => "Sent.",
});
const pause = { delayMs: process.env.OPEN ? 400 : 1 };
const words = ["Dear ", "Ann, ", "thank ", "you ", "for ", "the ", "book."];
const writer = new ReActAgent({
  name: "writer",
  description: "Writes and sends letters.",
  model: scriptedModel(({ assistantCount }) =>
    assistantCount % 2 === 0
      ? [...words.flatMap((word) => [pause, word]), { call: "send" }]
      : "Sent.",
  ),
  tools: [send],
});
const lead = new ReActAgent({
  name: "lead",
  model: scriptedModel(({ assistantCount }) =>
    assistantCount % 2 === 0
      ? { call: "writer", input: { prompt: "Thank Ann." } }
      : "The letter is on its way.",
  ),
  tools: [agentTool(writer)],
});

const token = randomBytes(32).toString("base64url");
const script = await bundlePage("examples/chat-page/page.tsx");
const app = pageApp(script, [lead], token, ["ai-sdk"]);
const server = await listen(app, process.env.OPEN ? 8080 : 0);
const url = `http://localhost:${server.port}`;
if (process.env.OPEN) console.log(`Open ${url}, or ${url}/?by=protocol, and write something.`);
else {
  const headers = { authorization: `Bearer ${token}` };
  const transport = new DefaultChatTransport<UIMessage>({ api: `${url}/api/chat`, headers });
  const question: UIMessage = {
    id: "m1",
    role: "user",
    parts: [{ type: "text", text: "Thank Ann." }],
  };
  const stream = await transport.sendMessages({
    chatId: "letters",
    trigger: "submit-message",
    messageId: undefined,
    messages: [question],
    abortSignal: undefined,
  });
  let last: UIMessage | undefined;
  for await (const message of readUIMessageStream({ stream })) last = message;
  const asked = last?.parts.find(({ type }) => type === "data-approval");
  assert.ok(asked && "data" in asked);
  const { name, message } = asked.data as { name: string; message: string };
  await server.close();
  console.log("The writer asks:", JSON.stringify({ name, message }));
}
