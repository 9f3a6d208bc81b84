// Resume: a process dies in the middle of a run, and another process resumes the session.
// Run it with: npm run example 06
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ReActAgent, sqliteStore, tool } from "rivulet";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

// The example starts itself a second time: the child process dies, this process resumes.
const isChildProcess = process.env.EXAMPLE_DIRECTORY !== undefined;
const directory = process.env.EXAMPLE_DIRECTORY ?? mkdtempSync(join(tmpdir(), "rivulet-"));
const paymentsFile = join(directory, "payments.txt");

const pay = tool({
  name: "pay",
  description: "Pays a bill.",
  input: z.object({ bill: z.string() }),
  execute({ bill }) {
    appendFileSync(paymentsFile, `${bill}\n`);
    return `Paid ${bill}.`;
  },
});
const postReceipt = tool({
  name: "post_receipt",
  description: "Posts a receipt.",
  input: z.object({ bill: z.string() }),
  idempotent: true, // may run again after a crash
  execute({ bill }) {
    if (isChildProcess) process.kill(process.pid, "SIGKILL"); // simulates a crash
    return `Posted the receipt for ${bill}.`;
  },
});

const store = sqliteStore(join(directory, "rivulet.db"));
const agent = new ReActAgent({
  name: "clerk",
  store,
  // `by: "prompt"` selects the turn by the conversation, so both processes continue the same script.
  model: scriptedModel(
    [
      { call: "pay", input: { bill: "electricity" } },
      { call: "post_receipt", input: { bill: "electricity" } },
      "The electricity is paid, and the receipt is in the post.",
    ],
    { by: "prompt" },
  ),
  tools: [pay, postReceipt],
});

const sessionId = "bills";
if (isChildProcess) {
  await agent.call("Pay the electricity bill.", { sessionId }); // never returns
} else {
  const { signal } = spawnSync(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    env: { ...process.env, EXAMPLE_DIRECTORY: directory },
    stdio: "inherit",
  });
  console.log(`the child process ended with ${signal}`);
  assert.equal(signal, "SIGKILL");

  // The dead process owns the session until its lease expires, so this takes a few seconds.
  const reply = await agent.call(undefined, { sessionId });
  const payments = readFileSync(paymentsFile, "utf8").trim().split("\n");
  console.log(`payments: ${payments.join(", ")}`);
  assert.deepEqual(payments, ["electricity"], "the payment did not run again");
  assert.equal(reply.generateReason, "model_stop");
  console.log(reply.text);
  await store.close();
  rmSync(directory, { recursive: true });
}
