// Streams one long text on a store with a flush window, until it is killed or done; a process that finds the conversation
// of another one resumes it.
// node window-agent.ts <folder> <flushMs as JSON>
import { join } from "node:path";
import { ReActAgent, sqliteStore } from "../../../../src/index.ts";
import { driveToEnd, withShortLeases } from "./crash-cast.ts";
import { pacedModel } from "./window-text.ts";

const [folder = "", window = "0"] = process.argv.slice(2);
const flushMs = JSON.parse(window);
const opened = sqliteStore(join(folder, "store.db"), { flushMs });
const store = withShortLeases(opened);
await driveToEnd(new ReActAgent({ name: "talker", store, model: pacedModel(5) }), store);
await opened.close();
