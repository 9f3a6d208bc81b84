// Distils the sessions of a folder. Arguments: the folder, what to do, and after how many writes to kill itself.
import { join } from "node:path";
import { type Filesystem, localFilesystem, sqliteStore } from "../../../../src/index.ts";
import { purposeOf, rememberingAgent } from "./remembering.ts";

const [, , folder = "", action = "", killAfter = "0"] = process.argv;
let writes = 0;

/** Kills this process after the given number of writes, whichever they are. */
function wrote<T>(result: T): T {
  writes += 1;
  if (writes === Number(killAfter)) process.kill(process.pid, "SIGKILL");
  return result;
}

function counted(files: Filesystem): Filesystem {
  return {
    ...files,
    write: async (...args) => wrote(await files.write(...args)),
    remove: async (...args) => wrote(await files.remove(...args)),
    within: (namespace) => counted(files.within(namespace)),
  };
}

const inner = sqliteStore(join(folder, "store.db"));
const put: typeof inner.files.put = async (...args) => wrote(await inner.files.put(...args));
const store = { ...inner, files: { ...inner.files, put } };
const filesystem = counted(localFilesystem(join(folder, "workspace")));
const { agent, model } = rememberingAgent("", { store, filesystem, workspace: undefined });
const ann = { userId: "ann" };
const memory = agent.memory(ann);
if (action === "prepare") {
  await agent.call("Note: Fact A.", { ...ann, sessionId: "one" });
  await memory.flush();
  await agent.call("Note: Fact B.", { ...ann, sessionId: "one" });
  await agent.call("Note: Fact C.", { ...ann, sessionId: "two" });
} else if (action === "forget") {
  await memory.forget("Fact A");
} else {
  await memory.flush();
}
const count = (purpose: string) => model.calls.filter((one) => purposeOf(one) === purpose).length;
const paths = (await memory.list()).map(({ path }) => path);
const files = await Promise.all(paths.map(async (path) => [path, await memory.read(path)]));
await agent.close();
await store.close();
console.log(JSON.stringify({ writes, distill: count("distill"), merge: count("merge"), files }));
