import { createHash } from "node:crypto";
import type { JSONWebKeySet, JWTPayload, JWTVerifyGetKey } from "jose";
import { RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import { type Field, type Fields, invalid, readOptions } from "../base/options.ts";
import type { Awaitable } from "../base/time.ts";
import { userIdField } from "../contract/index.ts";
import { type AccessTokens, isAccessToken } from "./access-tokens.ts";
import { badRequest } from "./errors.ts";

/**
 * A permission of a credential: `read` follows and lists, `write` starts, steers, answers, cancels and deletes, `operator`
 * sees the processes and moves the sessions of all users.
 */
export type Scope = "read" | "write" | "operator";
const allScopes: readonly Scope[] = ["read", "write", "operator"];
/** The scopes of a credential that names none. */
const userScopes: readonly Scope[] = ["read", "write"];

/** The user of a credential. */
export interface Identity {
  readonly userId: string;
  /** Defaults to `read` and `write`. */
  readonly scopes?: readonly Scope[];
}

/**
 * How JSON Web Tokens are checked. `sub` is the user; `scope` or `scp`, a string or an array of strings, may name
 * `rivulet:read`, `rivulet:write` and `rivulet:operator`.
 */
export interface JwtOptions {
  /** The address of the issuer's keys, or the keys. */
  readonly jwks: string | JSONWebKeySet;
  readonly issuer: string;
  readonly audience: string;
  /** The scopes of a token that has neither `scope` nor `scp`; defaults to `read` and `write`. */
  readonly defaultScopes?: readonly Scope[];
  /** True: a token without `exp` is valid forever. */
  readonly allowNoExpiry?: boolean;
}

/** How callers authenticate; a request needs a credential that one of these accepts. */
export interface AuthOptions {
  /** Users by bearer token. */
  readonly tokens?: Readonly<Record<string, Identity>>;
  readonly jwt?: JwtOptions;
  /** Returns the user of a request; undefined refuses it. */
  readonly authenticate?: (request: Request) => Awaitable<Identity | undefined>;
}

/** The caller of a request; without a user it is the operator of a local server. */
export interface Caller {
  readonly userId?: string;
  readonly scopes: readonly Scope[];
  /** The digest of the token that the caller has sent. */
  readonly tokenDigest?: string;
  /** When the credential expires, in milliseconds since 1970. */
  readonly expiresAt?: number;
}

const scopesField = is.listOf(is.oneOf(...allScopes));
const identityFields: Fields<Identity> = {
  userId: is.required(userIdField, '"ann"'),
  scopes: scopesField,
};
const jwtFields: Fields<JwtOptions> = {
  jwks: is.required(
    is.or(is.record, "an address", (value) => typeof value === "string" && URL.canParse(value)),
    '"https://issuer.example/.well-known/jwks.json"',
  ),
  issuer: is.required(is.name, '"https://issuer.example/"'),
  audience: is.required(is.name, '"rivulet"'),
  defaultScopes: scopesField,
  allowNoExpiry: is.flag,
};

/** The rule for the `auth` option. */
export const authField: Field = is.options({
  tokens: is.recordOf(is.options(identityFields)),
  jwt: is.options(jwtFields),
  authenticate: is.callback,
} satisfies Fields<AuthOptions>);

/** The rule for a token of the local operator, which must be hard to guess. */
export const tokenField: Field = {
  fits: (value) => typeof value === "string" && /^[\w~+/=.-]{16,512}$/.test(value),
  expected: "a secret of 16 to 512 letters, digits and -._~+/=",
};

/** Finds callers by their credentials. */
export interface Authenticator {
  /** The caller of a request; undefined if it has no valid credential. */
  find(request: Request): Promise<Caller | undefined>;
  /** Whether a text is a configured token, or has the form of one of the store. */
  isToken(text: string): boolean;
}

/** Builds the check of credentials from options; `token` is the operator's. */
export function authenticator(
  auth: AuthOptions | undefined,
  token: string | undefined,
  findSession: (request: Request) => Promise<{ readonly caller: Caller } | undefined>,
  accessTokens: AccessTokens,
): Authenticator {
  // A lookup by digest takes the same time for every wrong token.
  const callers = new Map<string, Caller>();
  for (const [secret, identity] of Object.entries(auth?.tokens ?? {})) {
    if (!tokenField.fits(secret))
      throw invalid("A key of `auth.tokens` is too easy to guess.", `Use ${tokenField.expected}.`);
    const tokenDigest = digest(secret);
    callers.set(tokenDigest, { ...callerOf(identity), tokenDigest });
  }
  if (token !== undefined) {
    const tokenDigest = digest(token);
    callers.set(tokenDigest, { scopes: allScopes, tokenDigest });
  }
  const { jwt, authenticate } = auth ?? {};
  const verify = jwt && jwtVerifier(jwt);
  // A token without a user is the operator's, whom a server with users does not have.
  const asCaller = (caller: Caller | undefined) =>
    auth !== undefined && caller?.userId === undefined ? undefined : caller;
  const find = async (request: Request) => {
    const credential = credentialOf(request);
    if (credential !== undefined) {
      const caller =
        callers.get(digest(credential)) ??
        asCaller(await accessTokens.find(credential)) ??
        (await verify?.(credential));
      if (caller) return caller;
    }
    if (!request.headers.has("authorization")) {
      const { caller } = (await findSession(request)) ?? {};
      // A token that was removed takes its cookies with it, and its scopes may have changed.
      const { tokenDigest } = caller ?? {};
      const current =
        tokenDigest === undefined
          ? caller
          : (callers.get(tokenDigest) ?? asCaller(await accessTokens.findByDigest(tokenDigest)));
      if (current) return current;
    }
    const identity = await authenticate?.(request);
    return identity && returnedCaller(identity);
  };
  return { find, isToken: (text) => isAccessToken(text) || callers.has(digest(text)) };
}

function callerOf({ userId, scopes = userScopes }: Identity): Caller {
  return { userId, scopes };
}

/** The caller that the function of the operator returns; it may return more than an identity. */
function returnedCaller({ userId, scopes }: Identity): Caller {
  try {
    return callerOf(readOptions("authenticate()", { userId, scopes } as Identity, identityFields));
  } catch (cause) {
    const { message } = cause as RivuletError;
    throw new RivuletError("authenticate_failed", `\`authenticate\` failed: ${message}`, {
      ...{ cause, hint: "Return the stable id of the user from `authenticate`." },
    });
  }
}

/** The token in the header of a request. */
export function credentialOf({ headers }: Request): string | undefined {
  return /^Bearer ([\w~+/=.-]{1,8192})$/i.exec(headers.get("authorization") ?? "")?.[1];
}

/** The digest of the Authorization header of a request; undefined without it. A cookie cannot be guessed. */
export function credentialDigest({ headers }: Request): string | undefined {
  const sent = headers.get("authorization");
  return sent === null ? undefined : digest(sent);
}

function digest(secret: string): string {
  return createHash("sha256").update(secret).digest("base64");
}

/** Loads jose with the first token that may be a JWT. */
function jwtVerifier(options: JwtOptions) {
  const { jwks, issuer, audience, allowNoExpiry = false } = options;
  const claims = { issuer, audience, requiredClaims: allowNoExpiry ? [] : ["exp"] };
  let keys: JWTVerifyGetKey | undefined;
  return async (token: string): Promise<Caller | undefined> => {
    if (token.split(".").length !== 3) return undefined;
    const { createLocalJWKSet, createRemoteJWKSet, jwtVerify, errors } = await import("jose");
    keys ??= typeof jwks === "string" ? createRemoteJWKSet(new URL(jwks)) : createLocalJWKSet(jwks);
    try {
      const { payload } = await jwtVerify(token, keys, claims);
      return callerIn(payload, options);
    } catch (error) {
      // A token that is wrong is refused; keys that cannot be fetched are a failure of the server.
      const isFault = error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError);
      if (isFault) throw error;
      return undefined;
    }
  };
}

/** The caller of a verified token; undefined if a claim is not what it must be. */
function callerIn(
  { sub, exp, scope, scp }: JWTPayload & { readonly scope?: unknown; readonly scp?: unknown },
  { defaultScopes = userScopes }: JwtOptions,
): Caller | undefined {
  if (sub === undefined || !userIdField.fits(sub)) return undefined;
  const claims = [scope, scp].filter((claim) => claim !== undefined);
  const known = { userId: sub, ...(exp !== undefined && { expiresAt: exp * 1_000 }) };
  if (claims.length === 0) return { ...known, scopes: defaultScopes };
  const named = claims.map(namesIn);
  if (named.includes(undefined)) return undefined;
  const scopes = allScopes.filter((one) => named.flat().includes(`rivulet:${one}`));
  return { ...known, scopes };
}

/** The names in a claim: a string with spaces between them, or an array; undefined for any other value. */
function namesIn(claim: unknown): readonly string[] | undefined {
  if (typeof claim === "string") return claim.split(" ");
  const isList = Array.isArray(claim) && claim.every((name) => typeof name === "string");
  return isList ? claim : undefined;
}

/** Which hosts and origins may address the server. */
export interface Addresses {
  /** Absent: any host. */
  readonly hosts?: readonly string[];
  /** Pages of other origins that may call; none by default. */
  readonly origins: readonly string[];
}

/** The names of this machine. */
export const loopback = ["localhost", "127.0.0.1", "[::1]"];

/** Throws if a request is for another host (DNS rebinding), from another origin, or has a token in its address. */
export function checkAddress(request: Request, { hosts, origins }: Addresses): void {
  const url = new URL(request.url);
  const host = (request.headers.get("host") ?? url.host).toLowerCase();
  const name = host.replace(/:\d+$/, "");
  if (hosts && !hosts.some((allowed) => allowed === name || allowed === host))
    throw forbidden(
      `This server does not answer for the host ${JSON.stringify(name.slice(0, 100))}.`,
      "Use the address that the server printed, or add the host to `hosts`.",
    );
  const origin = request.headers.get("origin");
  const isAllowed = origin === null ? undefined : origins.includes(origin) || isOwn(origin, host);
  const site = request.headers.get("sec-fetch-site") ?? "none";
  const isForeign = site === "cross-site" || site === "same-site";
  if (isAllowed === false || (isForeign && !isAllowed))
    throw forbidden(
      "A page of another origin cannot call this server.",
      "Add its origin to `origins`.",
    );
  for (const key of url.searchParams.keys()) {
    if (
      !/^(access_?token|token|id_token|api_?key|auth|authorization|jwt|secret|password)$/i.test(key)
    )
      continue;
    throw badRequest(
      `The query parameter \`${key}\` looks like a credential.`,
      "Send the token in the Authorization header; addresses are written to logs.",
      "invalid_credential_place",
    );
  }
}

/** Whether an address is one of the server that a request names as its host. */
export function isOwn(origin: string, host: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === host && /^https?:/.test(origin);
}

/** The error for a request that a rule forbids. */
export function forbidden(message: string, hint: string): RivuletError {
  return new RivuletError("forbidden", message, { hint });
}
