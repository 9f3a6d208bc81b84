import type { AgentSettings } from "../../agent/index.ts";
import { notFound, RivuletError } from "../../base/error.ts";
import * as is from "../../base/options.ts";
import { type Fields, readArgument, readOptions } from "../../base/options.ts";
import { userIdField } from "../../contract/index.ts";
import { notFound as fileNotFound } from "../filesystem/file-error.ts";
import type { TaskOwner } from "../filesystem/path.ts";
import type { Forgotten } from "./forget.ts";
import type { AgentMemory } from "./memory.ts";
import { dailyFiles, memoryFile, memoryPath, readText, versionFiles } from "./memory-files.ts";
import type { Passage } from "./search.ts";

/** A file of a memory. */
export interface MemoryFile {
  readonly path: string;
  /** In bytes. */
  readonly size: number;
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number;
}

/** What an agent remembers about one user, or in another scope. */
export interface Memory {
  /** Lists `MEMORY.md`, then the daily files and the old versions, the newest first. */
  list(): Promise<readonly MemoryFile[]>;
  /** Returns the text of a file, `MEMORY.md` by default; rejects with `not_found`. */
  read(path?: string): Promise<string>;
  /** Replaces the text of a file, without keeping the old one. */
  edit(path: string, text: string): Promise<void>;
  /** Finds facts with the most and the rarest of the words, the best first; `limit` defaults to 10. */
  search(text: string, page?: { readonly limit?: number }): Promise<readonly Passage[]>;
  /**
   * Removes every fact that contains the text from all files, also from old versions, and hides the messages that
   * contain it from the agent's tools and from later distillations.
   */
  forget(text: string): Promise<Forgotten>;
  /** Distils all sessions now and merges the new facts into `MEMORY.md`; rejects if a model call fails. */
  flush(): Promise<void>;
}

/** Whose memory. */
export interface MemoryScope {
  readonly userId?: string;
  /** Required if each session has its own memory. */
  readonly sessionId?: string;
}

const scopeFields: Fields<MemoryScope> = { userId: userIdField, sessionId: is.name };
const wordsField = {
  ...is.text,
  fits: (value: unknown) => typeof value === "string" && value.trim().length >= 3,
  expected: "a string of at least 3 characters",
};

/** The memory of an agent in a scope; throws `no_memory` for an agent without one. */
export function memoryIn(
  { name, agentId, store }: AgentSettings,
  memory: AgentMemory | undefined,
  given: MemoryScope,
): Memory {
  const scope = readOptions("memory()", given, scopeFields);
  if (!memory) {
    const hint = "Use a HarnessAgent with files, and without memory: false.";
    throw new RivuletError("no_memory", `The agent ${name} has no memory.`, { hint });
  }

  /** A session of another user does not exist. */
  async function ownerOf(): Promise<TaskOwner> {
    const { userId, sessionId } = scope;
    const owner = { agentId, sessionId: sessionId ?? "", ...(userId !== undefined && { userId }) };
    if (memory?.scope !== "session") return owner;
    const query = { userId: userId ?? null, sessionId: sessionId ?? "", limit: 1 };
    const [session] = sessionId === undefined ? [] : await store.sessions(query);
    if (!session) throw notFound("session", sessionId ?? "");
    return owner;
  }
  const viewIn = async () => memory.viewOf(await ownerOf());

  return {
    async list() {
      const { files } = await viewIn();
      const versions = (await versionFiles(files)).toReversed();
      const paths = [memoryFile, ...(await dailyFiles(files)), ...versions];
      const stats = await Promise.all(paths.map((path) => files.stat(path)));
      return stats.flatMap((stat) =>
        stat ? [{ path: stat.path, size: stat.size, modifiedAt: stat.modifiedAt }] : [],
      );
    },
    async read(path = memoryFile) {
      readArgument("path", path, is.required(is.name, '"MEMORY.md"'));
      const { files } = await viewIn();
      const { text, version } = await readText(files, memoryPath(files, path));
      if (version === null && path !== memoryFile) throw fileNotFound(path);
      return text;
    },
    async edit(path, text) {
      readArgument("path", path, is.required(is.name, '"MEMORY.md"'));
      readArgument("text", text, is.required(is.text));
      const { files } = await viewIn();
      await files.write(memoryPath(files, path), text);
    },
    async search(text, page = {}) {
      readArgument("text", text, is.required(is.text));
      const { limit = 10 } = readOptions("search()", page, { limit: is.count });
      return memory.search(await viewIn(), text, limit);
    },
    async forget(text) {
      readArgument("text", text, is.required(wordsField));
      return memory.forget(await ownerOf(), text);
    },
    flush: async () => memory.flush(await ownerOf()),
  };
}
