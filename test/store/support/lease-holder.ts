// Holds the lease of a session until it is killed: node lease-holder.ts <path> <session> <ttlMs> <shift of the date in ms>
import { setInterval as every } from "node:timers/promises";
import { sqliteStore } from "../../../src/store/sqlite.ts";

const [path = "", sessionId = "", ttl = "", shift = "0"] = process.argv.slice(2);
const ttlMs = Number(ttl);
const realNow = Date.now;
Date.now = () => realNow() + Number(shift);
const store = sqliteStore(path);
let lease = await store.acquire(sessionId, "holder", ttlMs);
console.log(lease ? "held" : "refused");
for await (const _ of every(ttlMs / 4)) {
  if (lease === undefined) break;
  [lease] = await store.renew([lease], ttlMs);
}
console.log("lost");
