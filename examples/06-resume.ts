// Resume: a process dies in the middle of a run, and the next one goes on with the same session.
// Run it with: npm run example 06
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ReActAgent, sqliteStore, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

const directory = process.env.EXAMPLE_DIRECTORY ?? mkdtempSync(join(tmpdir(), "rivulet-"));
const isFirst = process.env.EXAMPLE_DIRECTORY !== undefined;
const paid = join(directory, "paid.txt");

const pay = tool({
  name: "pay",
  description: "Pays a bill.",
  input: z.object({ bill: z.string() }),
  execute({ bill }) {
    appendFileSync(paid, `${bill}\n`);
    return `Paid ${bill}.`;
  },
});
const post = tool({
  name: "post_receipt",
  description: "Posts a receipt.",
  input: z.object({ bill: z.string() }),
  idempotent: true, // to do it twice is to do it once, so it may be done again after a crash
  execute({ bill }) {
    if (isFirst) process.kill(process.pid, "SIGKILL"); // the lights go out
    return `Posted the receipt for ${bill}.`;
  },
});

const store = sqliteStore(join(directory, "rivulet.db"));
const agent = new ReActAgent({
  name: "clerk",
  store,
  // What it says depends on the conversation alone, so it does not matter which process asks.
  model: scriptedModel(
    [
      { call: "pay", input: { bill: "electricity" } },
      { call: "post_receipt", input: { bill: "electricity" } },
      "The electricity is paid, and the receipt is in the post.",
    ],
    { by: "prompt" },
  ),
  tools: [pay, post],
});

const sessionId = "bills";
if (isFirst) {
  await agent.call("Pay the electricity bill.", { sessionId }); // does not come back
} else {
  const { signal } = spawnSync(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    env: { ...process.env, EXAMPLE_DIRECTORY: directory },
    stdio: "inherit",
  });
  console.log(`the first process ended with ${signal}`);
  assert.equal(signal, "SIGKILL");

  // The session stays with the dead process until its lease has ended, so this takes some seconds.
  const reply = await agent.call(undefined, { sessionId });
  const payments = readFileSync(paid, "utf8").trim().split("\n");
  console.log(`payments made: ${payments.join(", ")}`);
  assert.deepEqual(payments, ["electricity"]);
  assert.equal(reply.generateReason, "model_stop");
  console.log(reply.text);
  await store.close();
  rmSync(directory, { recursive: true });
}
