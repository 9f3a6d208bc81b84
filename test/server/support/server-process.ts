// Serves the team from a SQLite file and prints its address: node server-process.ts <path> <port> <pauseMs>
import { sqliteStore } from "../../../src/index.ts";
import { serve } from "../../../src/server/index.ts";
import { team } from "./team.ts";

const [path = "", port = "0", pauseMs = "5", token = ""] = process.argv.slice(2);
const store = sqliteStore(path);
const limits = { requestsPerSecond: 1_000_000, streams: 1_000_000 };
const { url } = await serve({
  agents: team(store, Number(pauseMs)),
  port: Number(port),
  auth: { tokens: { [token]: { userId: "ann" } } },
  log: false,
  limits,
});
console.log(url);
