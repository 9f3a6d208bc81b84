import { createHash, randomBytes } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import { RivuletError } from "../base/error.ts";
import type { Store } from "../contract/index.ts";
import type { Caller, Identity, Scope } from "./auth.ts";

/** A token that a store keeps; it has the hash of the secret, and not the secret. */
export interface AccessToken {
  /** The beginning of the hash, which names the token. */
  readonly id: string;
  readonly name?: string;
  /** The user; absent: the operator of a server without `auth`. */
  readonly userId?: string;
  readonly scopes: readonly Scope[];
  readonly createdAt: number;
  readonly expiresAt?: number;
}

/** What a new token is for. */
export interface AccessTokenOptions extends Partial<Identity> {
  readonly name?: string;
  readonly expiresAt?: number;
}

/** No filesystem on a store has a prefix that begins with `~`. */
const prefix = "~/tokens/";
const secretShape = /^rvl_[\w-]{43}$/;
const idLength = 12;
const maxTokens = 1_000;

/** Whether a text has the form of an access token. */
export function isAccessToken(text: string): boolean {
  return secretShape.test(text);
}

/** The access tokens of a store. All servers on it read them with each request, so a change needs no restart. */
export class AccessTokens {
  readonly #store: Store;
  readonly #clock: Pick<Clock, "now">;

  constructor(store: Store, clock: Pick<Clock, "now">) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Creates a token; its secret cannot be read again. */
  async create(
    options: AccessTokenOptions,
  ): Promise<{ readonly secret: string; readonly token: AccessToken }> {
    const { userId, scopes = ["read", "write"], name, expiresAt } = options;
    const secret = `rvl_${randomBytes(32).toString("base64url")}`;
    const hash = hashOf(secret);
    const token: AccessToken = {
      id: hash.slice(0, idLength),
      ...(name !== undefined && { name }),
      ...(userId !== undefined && { userId }),
      ...{ scopes, createdAt: this.#clock.now() },
      ...(expiresAt !== undefined && { expiresAt }),
    };
    const data = new TextEncoder().encode(JSON.stringify(token));
    await this.#store.files.put(`${prefix}${hash}`, data, { ifVersion: 0 });
    return { secret, token };
  }

  /** All tokens, the oldest first, with those that have expired. */
  async list(): Promise<readonly AccessToken[]> {
    const files = await this.#store.files.list(prefix, { limit: maxTokens });
    const tokens = await Promise.all(files.map(({ path }) => this.#read(path)));
    return tokens
      .filter((token) => token !== undefined)
      .toSorted((one, other) => one.createdAt - other.createdAt);
  }

  /** Deletes a token; throws `not_found`. Cookies that were exchanged for it end with it. */
  async revoke(id: string): Promise<void> {
    const [file] = /^[0-9a-f]{12}$/.test(id)
      ? await this.#store.files.list(`${prefix}${id}`, { limit: 1 })
      : [];
    if (file && (await this.#store.files.delete(file.path))) return;
    throw new RivuletError("not_found", `There is no token ${JSON.stringify(id.slice(0, 100))}.`, {
      hint: "`rivulet token list` lists the tokens.",
    });
  }

  /** The caller that a secret stands for; undefined if it is not valid. */
  async find(secret: string): Promise<Caller | undefined> {
    return isAccessToken(secret) ? this.findByDigest(hashOf(secret)) : undefined;
  }

  /** The caller of the token with a hash, as a cookie names it. */
  async findByDigest(tokenDigest: string): Promise<Caller | undefined> {
    if (!/^[0-9a-f]{64}$/.test(tokenDigest)) return undefined;
    const token = await this.#read(`${prefix}${tokenDigest}`);
    if (token === undefined) return undefined;
    const { userId, scopes, expiresAt } = token;
    if (expiresAt !== undefined && expiresAt <= this.#clock.now()) return undefined;
    return {
      ...{ scopes, tokenDigest },
      ...(userId !== undefined && { userId }),
      ...(expiresAt !== undefined && { expiresAt }),
    };
  }

  async #read(path: string): Promise<AccessToken | undefined> {
    const file = await this.#store.files.get(path);
    return file && (JSON.parse(new TextDecoder().decode(file.data)) as AccessToken);
  }
}

function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}
