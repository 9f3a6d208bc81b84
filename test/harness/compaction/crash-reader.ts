// Reads pages until it is done, or kills itself right before one of its writes: a file or a commit. Says each write.
// node crash-reader.ts <folder> [<number of the write>]
import { writeSync } from "node:fs";
import { join } from "node:path";
import { sqliteStore } from "../../../src/index.ts";
import { crashReader } from "./crash-cast.ts";

const [folder = "", at = "-1"] = process.argv.slice(2);
let writes = 0;

function onWrite(kind: string): void {
  if (writes++ === Number(at)) process.kill(process.pid, "SIGKILL");
  writeSync(1, `${kind}\n`);
}

const store = sqliteStore(join(folder, "store.db"));
const { text } = await crashReader(folder, store, onWrite).call("Read.", { sessionId: "crash" });
writeSync(1, `${text}\n`);
await store.close();
