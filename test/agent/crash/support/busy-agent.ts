// Runs an agent many times beside another process, on the same database and in the same workspace: on a session of its
// own, on one that both use, and on `held`, whose lease the test holds. Prints `queued` when its task on `held` is
// stored, the code of a call that does not want to wait there, `ran` after the other runs, and at last the number of
// its commits.
// node busy-agent.ts <folder> <name> <runs>
import { join } from "node:path";
import {
  fileTools,
  localFilesystem,
  ReActAgent,
  type Store,
  sqliteStore,
} from "../../../../src/index.ts";
import { scriptedModel } from "../../../../src/testing.ts";

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
    // The other process may run a task of the shared session: the name is the message's, not this process's.
    const [, who, digits] = /(\w+) (\d+)/.exec(JSON.stringify(prompt.at(-1)?.content)) ?? [];
    if (digits === undefined) return "Nothing to count.";
    const n = Number(digits);
    const input = { path: "counts", old_string: `${who}=${n};`, new_string: `${who}=${n + 1};` };
    return { call: "edit_file", input };
  }),
});

const held = agent.run(name, { sessionId: "held" });
await held.task;
console.log("queued");
const refused = agent.call(name, { sessionId: "held", onBusy: "fail" });
console.log(await refused.then(() => "begun").catch((error) => error.code));
for (let n = 0; n < Number(runs); n++) {
  const sessionId = n % 6 === 5 ? "shared" : name;
  await agent.call(`${name} ${n}`, { sessionId });
}
console.log("ran");
await held.result();
await store.close();
console.log(commits);
