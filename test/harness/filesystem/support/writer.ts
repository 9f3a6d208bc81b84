// A program that edits one file concurrently with other processes. It reports when it is ready and starts on a signal.
import { once } from "node:events";
import { filesAt } from "./files-at.ts";
import { toolBox } from "./tool-box.ts";

const [, , where = "", task = "", own = "", count = "0", userId] = process.argv;
const files =
  userId === undefined ? filesAt(where) : filesAt(where).within({ scope: "user", id: userId });

/** Increments a number in a file repeatedly; prints the number of conflicts. */
async function increment(): Promise<void> {
  let conflicts = 0;
  for (let left = Number(count); left > 0; ) {
    const { data, version } = await files.read(own);
    const next = String(Number(new TextDecoder().decode(data)) + 1);
    try {
      await files.write(own, next, { ifVersion: version });
      left -= 1;
    } catch (error) {
      if ((error as { code?: string }).code !== "conflict") throw error;
      conflicts += 1;
    }
  }
  console.log(conflicts);
}

/** Repeatedly replaces its own word in a file that other processes also edit. */
async function edit(): Promise<void> {
  const call = toolBox(files);
  for (let number = 1; number <= Number(count); number++) {
    const input = {
      path: "shared",
      old_string: `${own}=${number - 1};`,
      new_string: `${own}=${number};`,
    };
    const said = await call("edit_file", input);
    if (!said.startsWith("Replaced")) throw new Error(said);
  }
}

/** Writes long texts until it or its parent is killed. */
async function writeOn(): Promise<void> {
  const parent = process.ppid;
  for (let number = 0; process.ppid === parent; number++) {
    const letter = "abcdefghij"[number % 10] as string;
    await files.write(own, letter.repeat(300_000));
    if (number === 0) console.log("started");
  }
}

await files.stat("");
console.log("ready");
await once(process.stdin, "data");
process.stdin.unref(); // so that it does not keep the process up
if (task === "increment") await increment();
else if (task === "edit") await edit();
else await writeOn();
