import { createHash, randomBytes } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import type { Store } from "../contract/index.ts";
import { storeIdOf } from "../store/index.ts";
import { type Caller, forbidden, isOwn } from "./auth.ts";

/** The session behind a cookie, as it is stored. */
export interface PageSession {
  readonly caller: Caller;
  readonly expiresAt: number;
}

/** How long a cookie is valid, unless its token expires earlier. */
const defaultMs = 24 * 60 * 60_000;
const maxPerUser = 50;
/** No filesystem on a store has a prefix that begins with `~`. */
const prefix = "~/cookies/";

/**
 * The sessions of pages: a page exchanges its token for a random cookie, which works on this store alone, expires and can
 * be revoked. A browser also sends cookies to other ports of the same host, so a cookie must not be the token.
 */
export class PageSessions {
  readonly #store: Store;
  readonly #clock: Pick<Clock, "now">;
  readonly #isSecure: boolean;
  readonly #lifeMs: number;
  #storeId: string | undefined;

  constructor(
    store: Store,
    clock: Pick<Clock, "now">,
    { cookieMs = defaultMs, publicUrl = "" }: { cookieMs?: number; publicUrl?: string },
  ) {
    this.#store = store;
    this.#clock = clock;
    this.#lifeMs = cookieMs;
    this.#isSecure = publicUrl.startsWith("https:");
  }

  /** The name of the cookie; two servers on one host have two names. */
  async nameFor(request: Request): Promise<string> {
    this.#storeId ??= await storeIdOf(this.#store);
    const name = `rivulet_${hashOf(this.#storeId).slice(0, 8)}`;
    return this.#isSecureFor(request) ? `__Host-${name}` : name;
  }

  /** Begins a session; returns the header that sets its cookie. */
  async open(request: Request, caller: Caller): Promise<string> {
    const now = this.#clock.now();
    const expiresAt = Math.min(now + this.#lifeMs, caller.expiresAt ?? Number.POSITIVE_INFINITY);
    const owner = ownerOf(caller);
    await this.#prune(owner, now);
    const secret = randomBytes(32).toString("base64url");
    const session: PageSession = { caller, expiresAt };
    const data = new TextEncoder().encode(JSON.stringify(session));
    await this.#store.files.put(pathOf(owner, secret), data);
    return this.#header(request, `${owner}.${secret}`, Math.floor((expiresAt - now) / 1_000));
  }

  /** Ends the session of a request; returns the header that removes its cookie. */
  async close(request: Request): Promise<string> {
    const path = await this.#path(request);
    if (path !== undefined) await this.#store.files.delete(path);
    return this.#header(request, "", 0);
  }

  /** The session of a request; undefined without a valid cookie. Throws `forbidden` for a page of another origin. */
  async find(request: Request): Promise<PageSession | undefined> {
    const path = await this.#path(request);
    const file = path === undefined ? undefined : await this.#store.files.get(path);
    if (file === undefined) return undefined;
    const session = JSON.parse(new TextDecoder().decode(file.data)) as PageSession;
    if (session.expiresAt <= this.#clock.now()) {
      await this.#store.files.delete(file.path);
      return undefined;
    }
    if (isSameOrigin(request)) return session;
    throw forbidden(
      "The cookie is only accepted from a page of this server.",
      "Send the token in the Authorization header.",
    );
  }

  /** The file of the session that the cookie of a request names. */
  async #path(request: Request): Promise<string | undefined> {
    const header = request.headers.get("cookie");
    if (header === null) return undefined;
    const name = await this.nameFor(request);
    for (const pair of header.split(";")) {
      const value = pair.trim().startsWith(`${name}=`) ? pair.trim().slice(name.length + 1) : "";
      const [, owner, secret] = /^([\w-]{16})\.([\w-]{43})$/.exec(value) ?? [];
      if (owner !== undefined && secret !== undefined) return pathOf(owner, secret);
    }
    return undefined;
  }

  /** Deletes the sessions of a user that have expired, and the oldest beyond the limit. */
  async #prune(owner: string, now: number): Promise<void> {
    const { files } = this.#store;
    const kept = await files.list(`${prefix}${owner}/`);
    const sorted = kept.toSorted((one, other) => other.modifiedAt - one.modifiedAt);
    for (const [index, { path, modifiedAt }] of sorted.entries())
      if (index >= maxPerUser - 1 || modifiedAt + this.#lifeMs <= now) await files.delete(path);
  }

  async #header(request: Request, value: string, seconds: number): Promise<string> {
    const attributes = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}`;
    const secure = this.#isSecureFor(request) ? "; Secure" : "";
    return `${await this.nameFor(request)}=${value}; ${attributes}${secure}`;
  }

  /** TLS may end in front of the server, which `publicUrl` says. */
  #isSecureFor(request: Request): boolean {
    return this.#isSecure || new URL(request.url).protocol === "https:";
  }
}

/** Browsers say where a request comes from; over plain HTTP to another machine only with `origin` or `referer`. */
function isSameOrigin({ headers, url }: Request): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin";
  const from = headers.get("origin") ?? headers.get("referer");
  const host = (headers.get("host") ?? new URL(url).host).toLowerCase();
  return from !== null && isOwn(from, host);
}

function ownerOf({ userId }: Caller): string {
  return hashOf(JSON.stringify(userId ?? null)).slice(0, 16);
}

function pathOf(owner: string, secret: string): string {
  return `${prefix}${owner}/${hashOf(secret)}`;
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}
