import { HarnessAgent, sqliteStore } from "../../../../src/index.ts";
import { scriptedModel } from "../../../../src/testing.ts";

// Starts a command in the background and waits to be killed.
const [workspace = "", database = "", command = ""] = process.argv.slice(2);
const agent = new HarnessAgent({
  name: "lead",
  model: scriptedModel([[{ call: "execute", input: { command, background: true } }], "started"]),
  store: sqliteStore(database),
  workspace,
  leaseMs: 1_000,
  filesystem: { sandbox: { jail: "bubblewrap" } },
});
await agent.call("go", { sessionId: "s" });
process.send?.("started");
setInterval(() => {}, 1_000);
