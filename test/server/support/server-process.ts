// Serves the team from a SQLite file and prints its address: node server-process.ts <path> <port> <pauseMs>

import { sqliteStore } from "../../../src/index.ts";
import { serve } from "../../../src/server.ts";
import { unlimited } from "../../support/unlimited.ts";
import { team } from "./team.ts";

const [path = "", port = "0", pauseMs = "5", token = ""] = process.argv.slice(2);
const store = sqliteStore(path);
const limits = unlimited;
const { url } = await serve({
  agents: team(store, Number(pauseMs)),
  port: Number(port),
  auth: { tokens: { [token]: { userId: "ann" } } },
  log: false,
  limits,
});
console.log(url);
