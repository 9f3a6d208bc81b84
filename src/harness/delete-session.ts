import { settingsBehind } from "../agent/index.ts";
import type { Agent, Store, TaskRecord } from "../contract/index.ts";
import { resultsDirectory } from "./context/eviction.ts";
import { valueOnCodes } from "./filesystem/file-error.ts";
import { harnessBehind } from "./harness.ts";
import { deleteCursor } from "./memory/cursor.ts";
import { tasksBelow } from "./session.ts";

/**
 * Deletes a session with its children, its logs and the files that they have left in the workspaces of their agents.
 * Resolves to false if the user has no such session; rejects with `conflict` while it runs.
 */
export async function deleteSession(
  store: Store,
  agent: Agent | undefined,
  sessionId: string,
  userId: string | undefined,
): Promise<boolean> {
  const [session] = await store.sessions({ userId: userId ?? null, sessionId, limit: 1 });
  if (session === undefined) return false;
  const removeLeftovers = agent && (await findLeftovers(agent, store, sessionId));
  if (!(await store.deleteSession(sessionId))) return false;
  await deleteCursor(store, session);
  await removeLeftovers?.();
  return true;
}

/** Finds the files that a session leaves behind; the returned function removes them. */
async function findLeftovers(
  agent: Agent,
  store: Store,
  sessionId: string,
): Promise<() => Promise<void>> {
  const records = await tasksBelow(store, sessionId);
  const directory = resultsDirectory(sessionId);

  async function remove(owner: Agent, record: TaskRecord): Promise<void> {
    const { sessionId: own, agentId, userId } = record;
    const workspace = harnessBehind(owner)?.workspace;
    const user = userId === undefined ? {} : { userId };
    const { files } = workspace?.viewOf({ sessionId: own, agentId, ...user }) ?? {};
    await files?.remove(directory).catch(valueOnCodes(undefined, "not_found"));
    const children = records.filter(({ parentSessionId }) => parentSessionId === own);
    const byKey = new Map(children.map((child) => [child.agentKey, child]));
    for (const child of byKey.values()) {
      // A child that is no longer declared has left its files to the operator.
      const found = await settingsBehind(owner)?.resolveChild?.(child);
      if (found) await remove(found, child);
    }
  }

  return async () => {
    const root = records.find((record) => record.sessionId === sessionId);
    if (root) await remove(agent, root);
  };
}
