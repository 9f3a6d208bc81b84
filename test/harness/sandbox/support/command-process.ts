import { sandboxFilesystem } from "../../../../src/harness/filesystem/sandbox.ts";

// Runs a command in a new sandbox and prints the result as JSON.
const [root = "", script = ""] = process.argv.slice(2);
const warnings: string[] = [];
const files = sandboxFilesystem(root, { onWarning: (message) => void warnings.push(message) });
const ann = files.within({ scope: "user", id: "ann" });
await files.write("common.txt", "common\n");
await files.write("other.txt", "other\n");
const result = await ann.shell?.run(script);
console.log(JSON.stringify({ jail: files.shell.jail, warnings, result }));
