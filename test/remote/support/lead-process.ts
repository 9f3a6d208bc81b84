// Runs a lead with a helper on another server, and prints each delta of the helper: node lead-process.ts <path> <place>
import { sqliteStore } from "../../../src/index.ts";
import { leadOf, spawnOnce } from "./foreign-lead.ts";

const [path = "", place = "{}"] = process.argv.slice(2);
const { lead } = leadOf(JSON.parse(place), spawnOnce, { store: sqliteStore(path) });
for await (const event of lead.run("Go.", { sessionId: "s" }))
  if (event.type === "task.text.delta" && event.source) console.log(event.delta);
