import { HarnessAgent } from "rivulet";
import { postgresStore } from "rivulet/postgres";
import type { ServeOptions } from "rivulet/server";

const { DATABASE_URL = "", API_TOKEN = "", PUBLIC_HOST = "localhost" } = process.env;

const store = postgresStore(DATABASE_URL);

const assistant = new HarnessAgent({
  name: "assistant",
  model: process.env.MODEL ?? "demo:analyst",
  store,
  // In the database, so that every worker has them.
  filesystem: "store",
});

export default {
  agents: [assistant],
  hosts: [PUBLIC_HOST],
  auth: { tokens: { [API_TOKEN]: { userId: "app" } } },
} satisfies ServeOptions;
