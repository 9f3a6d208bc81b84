// Exits in the middle of a run: node exiting-agent.ts <database> <stream | run | result>. Prints each wait for a lease.
import { ReActAgent } from "../../../src/index.ts";
import { scriptedModel } from "../../../src/testing.ts";

const [path = "", moment = ""] = process.argv.slice(2);
const model = scriptedModel(() => "Done.");
const agent = new ReActAgent({ name: "lead", store: `sqlite:${path}`, model, leaseMs: 60_000 });
const options = {
  sessionId: "s",
  onWait: () => {
    console.log("waits");
    process.exit(1);
  },
};
if (moment === "stream") {
  for await (const event of agent.stream("Go.", options)) if (event.last) process.exit(0);
} else if (moment === "run") {
  for await (const event of agent.run("Go.", options))
    if (event.type === "task.completed") process.exit(0);
} else {
  await agent.call("Go.", options);
  process.exit(0);
}
