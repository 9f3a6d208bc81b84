// Writes to the same rows as other processes, `count` times each, and prints the number of retries.
// node rival.ts <path> <name> <count>
import type { Lease, Store } from "../../../src/contract/store.ts";
import { sqliteStore } from "../../../src/store/sqlite.ts";
import { delta, message } from "../../../src/testing/store-contract/samples.ts";

const [path = "", name = "", count = "0"] = process.argv.slice(2);
const store: Store = sqliteStore(path);
let conflicts = 0;

function countConflict(error: { readonly code?: string }): undefined {
  if (error.code !== "conflict") throw error;
  conflicts += 1;
}

/** Increments the number in a file with conditional writes. */
async function increment(): Promise<void> {
  for (;;) {
    const file = await store.files.get("count");
    const next = Number(new TextDecoder().decode(file?.data)) + 1;
    const data = new TextEncoder().encode(String(next));
    const options = { ifVersion: file?.version ?? 0 };
    if (await store.files.put("count", data, options).catch(countConflict)) return;
  }
}

async function own(sessionId: string): Promise<Lease> {
  for (;;) {
    const lease = await store.acquire(sessionId, name, 60_000);
    if (lease) return lease;
    conflicts += 1;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

for (let n = 0; n < Number(count); n++) {
  const text = `${name} ${n}`;
  await increment();
  const lease = await own("sess_shared");
  const at = (await store.session("sess_shared")).length;
  await store.commit({
    lease,
    log: "task_shared",
    events: [delta(text)],
    appends: [{ sessionId: "sess_shared", at, messages: [message(text)] }],
  });
  await store.release(lease);
}
await store.close();
console.log(conflicts);
