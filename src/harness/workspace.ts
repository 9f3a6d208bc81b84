import type { HookContext } from "../agent/hook.ts";
import type { FileView } from "./file-cache.ts";
import type { Filesystem } from "./filesystem/filesystem.ts";
import { type AtWork, type IsolationScope, namespaceOf } from "./filesystem/namespace.ts";

/** Where a workspace is, unless somebody says otherwise. */
export const defaultWorkspace = ".rivulet/workspace";

/** The directory that an agent lives in. */
export interface Workspace {
  /** All of it, as its operator sees it. */
  readonly files: Filesystem;
  /** Among whom its files are shared. */
  readonly isolation: IsolationScope;
  /** What the one who is at work sees of it. */
  viewOf(who: AtWork): FileView;
  /** The same for a hook. */
  viewFor(context: HookContext): FileView;
}

/** A filesystem as the workspace of an agent. */
export function openWorkspace(files: Filesystem, isolation: IsolationScope): Workspace {
  function viewOf(who: AtWork): FileView {
    const namespace = namespaceOf(isolation, who);
    if (!namespace) return { key: "", files };
    return { key: `${namespace.scope}:${namespace.id}`, files: files.within(namespace) };
  }
  return {
    files,
    isolation,
    viewOf,
    viewFor: ({ task, agentId, userId }) =>
      viewOf({ sessionId: task.sessionId, agentId, ...(userId !== undefined && { userId }) }),
  };
}
