// Serves one finished log and answers each message with the memory of the process:
// node --max-old-space-size=… log-server.ts <"memory" or a path> <megabytes> <bytes per event>
import { memoryStore, ReActAgent, sqliteStore } from "../../../src/index.ts";
import { serve } from "../../../src/server.ts";
import { acquire, delta, record } from "../../../src/testing/store-contract/samples.ts";
import { scriptedModel } from "../../../src/testing.ts";

const [place = "memory", megabytes = "1", eventBytes = "200"] = process.argv.slice(2);
const retention = { logs: { maxAgeMs: 3_600_000, maxBytes: 1_000_000_000 } };
const store = place === "memory" ? memoryStore({ retention }) : sqliteStore(place, { retention });
const text = "x".repeat(Number(eventBytes));
const perCommit = Math.ceil(500_000 / text.length);
const lease = await acquire(store, "sess_1");
let length = 0;
for (let written = 0; written < Number(megabytes) * 1e6; written += perCommit * text.length) {
  const events = Array.from({ length: perCommit }, (_, n) => ({
    ...delta(text),
    task_seq: length + n,
  }));
  length += perCommit;
  await store.commit({ lease, log: "task_1", events, tasks: [record()] });
}
await store.commit({ lease, log: "task_1", tasks: [record({ status: "completed" })] });
await store.release(lease);
const token = "reader-0123456789abcdef";
const { url } = await serve({
  agents: [new ReActAgent({ name: "assistant", model: scriptedModel([]), store })],
  port: 0,
  token,
  log: false,
  limits: { requestsPerSecond: 1_000_000, streams: 1_000_000 },
});
process.on("message", () => {
  const { rss, heapUsed, external } = process.memoryUsage();
  process.send?.({ rss, heapUsed, external, peak: process.resourceUsage().maxRSS * 1_024 });
});
process.send?.({ url, token, length });
