import { createHash } from "node:crypto";
import { RivuletError } from "../base/error.ts";
import { isObject } from "../base/plain.ts";
import type { Store } from "../contract/index.ts";

/** The kind of thing that an id in a request names; the first segment of a `path` is a session. */
export type IdKind = "task" | "session" | "path";

/** The ids in a request by the names of their fields; those in an object, or in the entries of an array, by theirs. */
export interface IdKinds {
  readonly [name: string]: IdKind | IdKinds;
}

/** The longest id of a task or a session. */
const maxId = 128;
const hashLength = 16;

/** The ids of a request: those that a caller chooses are names within its user, and minted ids are taken as they are. */
export class Names {
  readonly #store: Store;
  readonly #userId: string | undefined;
  /** The end of every id that the user has chosen; "" without a user. */
  readonly #suffix: string;

  constructor(store: Store, userId: string | undefined) {
    this.#store = store;
    this.#userId = userId;
    const hash = createHash("sha256").update(userId ?? "");
    this.#suffix = userId === undefined ? "" : `~${hash.digest("base64url").slice(0, hashLength)}`;
  }

  /** The stored id: of what the user has under this name or id, else the one that something new gets. */
  async stored(kind: IdKind, id: string): Promise<string> {
    if (this.#suffix === "" || id === "") return id;
    if (kind === "path") {
      const [session = "", ...below] = id.split("/");
      return [await this.stored("session", session), ...below].join("/");
    }
    if (id.endsWith(this.#suffix)) return id;
    const chosen = `${id}${this.#suffix}`;
    const fits = chosen.length <= maxId;
    if (fits && (await this.#has(kind, chosen))) return chosen;
    if (await this.#has(kind, id)) return id;
    if (fits) return chosen;
    const most = maxId - this.#suffix.length;
    throw new RivuletError("invalid_id", `The id of a ${kind} has ${id.length} characters.`, {
      hint: `Choose an id with at most ${most} characters.`,
    });
  }

  /** Replaces the ids in the values of a request by the stored ones. */
  async replaced<Values>(values: Values, kinds: IdKinds): Promise<Values> {
    if (Array.isArray(values))
      return (await Promise.all(values.map((entry) => this.replaced(entry, kinds)))) as Values;
    if (!isObject(values)) return values;
    const replaced: Record<string, unknown> = { ...values };
    for (const [name, kind] of Object.entries(kinds)) {
      const value = Object.hasOwn(values, name) ? values[name] : undefined;
      if (typeof kind === "object") {
        if (value !== undefined) replaced[name] = await this.replaced(value, kind);
      } else if (typeof value === "string") replaced[name] = await this.stored(kind, value);
    }
    return replaced as Values;
  }

  /** The name that the user has chosen for a stored id; undefined for a minted id. */
  given(id: string): string | undefined {
    const isChosen = this.#suffix !== "" && id.endsWith(this.#suffix);
    return isChosen ? id.slice(0, -this.#suffix.length) : undefined;
  }

  async #has(kind: Exclude<IdKind, "path">, id: string): Promise<boolean> {
    const userId = this.#userId ?? null;
    if (kind === "session")
      return (await this.#store.sessions({ userId, sessionId: id, limit: 1 })).length > 0;
    return (await this.#store.task(id))?.userId === userId;
  }
}
