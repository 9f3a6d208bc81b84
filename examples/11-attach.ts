// Several processes: one process runs a task, another attaches to it, sees every event, and takes over when the first
// one is killed. Run it with: npm run example 11
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ReActAgent, sqliteStore, tool } from "rivulet";
import { checkStream, emptyTree, reduce, rootTask, type TaskEvent } from "rivulet/protocol";
import { scriptedModel } from "rivulet/testing";
import { z } from "zod";

// The example starts itself a second time: the child process starts the run, this process attaches to it.
const isChildProcess = process.env.EXAMPLE_DIRECTORY !== undefined;
const directory = process.env.EXAMPLE_DIRECTORY ?? mkdtempSync(join(tmpdir(), "rivulet-"));
const bookingsFile = join(directory, "bookings.txt");

const bookRoom = tool({
  name: "book_room",
  description: "Books a room.",
  input: z.object({ room: z.string() }),
  execute({ room }) {
    appendFileSync(bookingsFile, `${room}\n`);
    return `Booked the ${room} room.`;
  },
});
const sendInvitations = tool({
  name: "send_invitations",
  description: "Sends the invitations.",
  idempotent: true, // may run again after a takeover
  async execute(_, { emit, signal }) {
    emit("Sending. ");
    // In the child process the tool hangs until the process is killed.
    if (isChildProcess) await once(signal, "abort");
    return "Sent.";
  },
});

const store = sqliteStore(join(directory, "rivulet.db"));
const agent = new ReActAgent({
  name: "planner",
  store,
  leaseMs: 1_000, // another process takes over after one second
  // `by: "prompt"` selects the turn by the conversation, so both processes continue the same script.
  model: scriptedModel(
    [
      { call: "book_room", input: { room: "blue" } },
      { call: "send_invitations" },
      { text: ["The room is booked, ", "and the invitations are sent."] },
    ],
    { by: "prompt" },
  ),
  tools: [bookRoom, sendInvitations],
});

const sessionId = "meeting";
if (isChildProcess) {
  const run = agent.run("Plan the meeting.", { sessionId });
  await run.task;
  console.log("started");
  await run.result(); // never returns
} else {
  const owner = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    env: { ...process.env, EXAMPLE_DIRECTORY: directory },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(owner, "exit");
  await once(owner.stdout, "data");

  const run = agent.attach({ sessionId });
  const events: TaskEvent[] = [];
  let tree = emptyTree();
  for await (const event of run) {
    events.push(event);
    tree = reduce(tree, event);
    if (event.type === "task.text.delta") console.log(`text: ${event.delta}`);
    if (event.type === "task.resumed") console.log("this process took over");
    // The second tool has started in the child process: kill the process.
    if (event.type === "task.text.delta" && event.delta === "Sending. ") owner.kill("SIGKILL");
  }
  assert.deepEqual(await exited, [null, "SIGKILL"]);

  const reply = await run.result();
  const bookings = readFileSync(bookingsFile, "utf8").trim().split("\n");
  assert.deepEqual(bookings, ["blue"], "the booking did not run again");
  assert.equal(rootTask(tree)?.status, "completed");
  assert.deepEqual(
    events.map((event) => "sequence_number" in event && event.sequence_number),
    events.map((_, index) => index),
    "no event is missing or doubled",
  );
  assert.deepEqual(checkStream(events), []);
  await assert.rejects(agent.attach({ sessionId: "unknown" }).result(), { code: "not_found" });
  console.log(reply.text);
  await store.close();
  rmSync(directory, { recursive: true });
}
