// A small React page, examples/react-page/page.tsx: it shows a tree of agents live, survives a reload and a restart
// of the server, and asks for approvals. Run it with: npm run example 13
// `OPEN=1 npm run example 13` keeps serving, so that you can open the page.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { agentTool, ReActAgent, tool } from "rivulet";
import { connect } from "rivulet/client";
import { scriptedModel } from "rivulet/testing";
import { bundlePage, listen, pageApp } from "./react-page/serve-page.ts";

const send = tool({
  name: "send",
  description: "Sends the letter.",
  needsApproval: true,
  execute: () => "Sent.",
});
const words = ["Dear ", "Ann, ", "thank ", "you ", "for ", "the ", "book."];
const pause = { delayMs: process.env.OPEN ? 400 : 1 };
const writer = new ReActAgent({
  name: "writer",
  description: "Writes letters.",
  model: scriptedModel(() => words.flatMap((word) => [pause, word])),
});
const lead = new ReActAgent({
  name: "lead",
  model: scriptedModel(({ assistantCount }) =>
    assistantCount % 3 === 0
      ? { call: "writer", input: { prompt: "Thank Ann." } }
      : assistantCount % 3 === 1
        ? { call: "send" }
        : "The letter is on its way.",
  ),
  tools: [agentTool(writer), send],
});

const token = randomBytes(32).toString("base64url");
const script = await bundlePage("examples/react-page/page.tsx");
const server = await listen(pageApp(script, [lead], token), process.env.OPEN ? 8080 : 0);
const url = `http://localhost:${server.port}`;
if (process.env.OPEN) console.log(`Open ${url} and write something.`);
else {
  const page = await fetch(url);
  assert.match(page.headers.get("set-cookie") ?? "", /HttpOnly; SameSite=Strict/);
  const agent = connect(url, { token }).agent("lead");
  const asked = await agent.call("Thank Ann.", { sessionId: "letters" });
  assert.equal(asked.generateReason, "approval_required");
  const reply = await agent.call(asked.approvals.map((approval) => approval.approve()));
  await server.close();
  console.log(reply.text);
}
