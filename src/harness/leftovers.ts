import { settingsBehind } from "../agent/index.ts";
import type { Agent, Store, TaskRecord } from "../contract/index.ts";
import { resultsDirectory } from "./context/eviction.ts";
import { valueOnCodes } from "./filesystem/file-error.ts";
import { tasksBelow } from "./session.ts";
import { workspaceOf } from "./workspace.ts";

/**
 * Finds the files that a session and its descendants have left in the workspaces of their agents. Call this before the
 * session is deleted, and the returned function after that.
 */
export async function findLeftovers(
  agent: Agent,
  store: Store,
  sessionId: string,
): Promise<() => Promise<void>> {
  const records = await tasksBelow(store, sessionId);
  const directory = resultsDirectory(sessionId);

  async function remove(owner: Agent, record: TaskRecord): Promise<void> {
    const { sessionId: own, agentId, userId } = record;
    const workspace = workspaceOf(owner);
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
