import type { Commit } from "../../../src/contract/store.ts";
import { delta, message, postRow, record } from "../../../src/testing/store-contract/samples.ts";

/** The conversation of the crash tests. */
export const sessionId = "sess_1";
/** Its log. */
export const log = "task_1";

type Part = Omit<Commit, "lease" | "log">;

/** Large enough for SQLite to write pages before a commit and to checkpoint. */
const large = "0123456789abcdef".repeat(20_000);

/** The commits of step `n`: one with two deltas, and one with every part. */
export function stepCommits(n: number): { readonly deltas: Part; readonly step: Part } {
  const text = n % 5 === 4 ? `${n} ${large}` : String(n);
  return {
    deltas: { events: [delta(`delta ${n} a`), delta(`delta ${n} b`)] },
    step: {
      events: [delta(`step ${n} a`), delta(`step ${n} b`), delta(`step ${n} c`)],
      appends: [{ sessionId, at: n, messages: [message(text, `msg_${n}`)] }],
      tasks: [record({ committedOutput: n + 1 })],
      posts: [postRow({ id: `post_${n}`, kind: "hint" })],
      taken: n === 0 ? [] : [`post_${n - 1}`],
    },
  };
}
