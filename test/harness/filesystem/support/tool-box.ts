import type { ToolContext } from "../../../../src/agent/tool/context.ts";
import { readResult } from "../../../../src/agent/tool/result.ts";
import { definitionOf } from "../../../../src/agent/tool/tool.ts";
import { reasonOf } from "../../../../src/base/error.ts";
import { textOf } from "../../../../src/contract/message.ts";
import type { Filesystem } from "../../../../src/harness/filesystem/filesystem.ts";
import type { IsolationScope } from "../../../../src/harness/filesystem/path.ts";
import { fileTools } from "../../../../src/harness/tools/files.ts";

/** The caller of a tool. */
export interface Caller {
  readonly userId?: string;
  readonly sessionId?: string;
  readonly agentId?: string;
  /** Aborts the call. */
  readonly signal?: AbortSignal;
}

/** Calls a file tool and resolves to the result or error that the model reads. */
export type ToolBox = (name: string, input: object, caller?: Caller) => Promise<string>;

/** Creates the file tools of a filesystem. */
export function toolBox(filesystem: Filesystem, scope: IsolationScope = "user"): ToolBox {
  const tools = new Map(
    fileTools(filesystem, { scope }).map((made) => [made.name, definitionOf(made)]),
  );
  return async (name, input, caller = {}) => {
    const { userId, sessionId = "sess_1", agentId = "assistant", signal } = caller;
    const definition = tools.get(name);
    if (!definition?.execute || !definition.input) throw new Error(`There is no tool ${name}.`);
    const checked = await definition.input["~standard"].validate(input);
    if (checked.issues) return `invalid input: ${JSON.stringify(checked.issues)}`;
    const context = {
      signal: signal ?? new AbortController().signal,
      sessionId,
      agent: { name: agentId, agentId },
      ...(userId !== undefined && { userId }),
    } as unknown as ToolContext;
    try {
      const result = readResult(await definition.execute(checked.value, context));
      return result.ok ? textOf(result.content) : result.message;
    } catch (error) {
      return `Error: ${reasonOf(error)}`;
    }
  };
}
