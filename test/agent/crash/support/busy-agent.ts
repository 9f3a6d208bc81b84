// Runs an agent again and again beside another process, on the same database and in the same workspace: on a session
// of its own, on one that both use, and once on one that somebody else holds. Says what that came to, then the number
// of its commits.
// node busy-agent.ts <folder> <name> <runs>
import { join } from "node:path";
import type { Store } from "../../../../src/index.ts";
import { fileTools, localFilesystem, ReActAgent, sqliteStore } from "../../../../src/index.ts";
import { scriptedModel } from "../../../../src/testing/index.ts";

const [folder = "", name = "", runs = "0"] = process.argv.slice(2);
const opened = sqliteStore(join(folder, "store.db"));
let commits = 0;
const store: Store = {
  ...opened,
  commit(commit) {
    commits += 1;
    return opened.commit(commit);
  },
};
const files = fileTools(localFilesystem(join(folder, "workspace")), { scope: "global" });
const agent = new ReActAgent({
  name: "writer",
  store,
  tools: files,
  model: scriptedModel(({ prompt }) => {
    if (prompt.at(-1)?.role === "tool") return "Done.";
    const n = Number(/\d+/.exec(JSON.stringify(prompt.at(-1)?.content))?.[0]);
    const input = { path: "counts", old_string: `${name}=${n};`, new_string: `${name}=${n + 1};` };
    return { call: "edit_file", input };
  }),
});

const held = agent.call("0", { sessionId: "held", onBusy: "fail" });
console.log(await held.then(() => "taken").catch((error) => error.code));
for (let n = 0; n < Number(runs); n++) {
  const sessionId = n % 6 === 5 ? "shared" : name;
  await agent.call(`${name} ${n}`, { sessionId });
}
await store.close();
console.log(commits);
