// Mount the agents in an app that exists: Hono here.
// Run it with: npm run example 14
import assert from "node:assert/strict";
import { Hono } from "hono";
import { ReActAgent } from "rivulet";
import { connect } from "rivulet/client";
import { createApp } from "rivulet/server";
import { scriptedModel } from "rivulet/testing";

const assistant = new ReActAgent({
  name: "assistant",
  model: scriptedModel([{ text: ["Mounted ", "under /ai."] }]),
});

const app = new Hono().get("/", (context) => context.text("The rest of the app."));
// The app authenticates its users: here the user comes from the app's own session.
const auth = { authenticate: () => ({ userId: "ann", scopes: ["read", "write"] as const }) };
const agents = createApp({ agents: [assistant], auth, hosts: ["app.example"], log: false });
app.mount("/ai", agents.fetch);

// docs/guide/serve.md has the same for Next, Express, Bun and Deno.

// The client needs only `fetch`, so the example opens no port.
const remote = connect("https://app.example/ai", {
  fetch: async (input, init) => app.fetch(new Request(input, init)),
});
assert.equal(await (await app.request("/")).text(), "The rest of the app.");
const reply = await remote.agent("assistant").call("Where are you?");
console.log(reply.text);
