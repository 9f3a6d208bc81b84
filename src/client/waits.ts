import type { WaitReason } from "../contract/index.ts";
import { isTerminal, type TaskStatus } from "../protocol/index.ts";
import type { Server } from "./request.ts";

/** How long a task may stand still before the client asks why, and how often it asks. */
const pollMs = 1_000;

/** The fields of a task that say why it does not move. */
interface StandingTask {
  readonly status: TaskStatus;
  readonly waits?: { readonly reason: WaitReason["reason"]; readonly left_ms?: number };
}

/** The task to ask about. */
export interface WaitingTask {
  readonly server: Server;
  readonly taskId: string;
  /** When the last event of the run arrived; 0 before the first. */
  readonly lastEventAt: () => number;
  readonly onWait: (reason: WaitReason) => void;
}

/** Calls `onWait` every second while a task does not move. Ends when the task rests; rejects when the signal aborts. */
export async function reportWaits(
  { server, taskId, lastEventAt, onWait }: WaitingTask,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = server;
  const path = `/v1/tasks/${encodeURIComponent(taskId)}`;
  let task: StandingTask | undefined;
  let tag: string | null = null;
  for (;;) {
    await clock.sleep(pollMs, signal);
    if (clock.now() - lastEventAt() < pollMs) continue;
    try {
      // A task that has not changed is not sent again.
      const headers: Record<string, string> = tag === null ? {} : { "if-none-match": tag };
      const response = await server.send(path, { headers, signal });
      if (response.status !== 304) task = (await response.json()) as StandingTask;
      tag = response.headers.get("etag");
    } catch {
      continue; // the reader of the log reports the connection
    }
    if (task === undefined || task.status === "suspended" || isTerminal(task.status)) return;
    const { reason, left_ms: leftMs } = task.waits ?? {};
    if (reason) onWait({ reason, ...(leftMs !== undefined && { leftMs }) });
  }
}
