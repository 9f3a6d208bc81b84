import { systemClock } from "../base/clock.ts";
import type { Store } from "../contract/index.ts";
import { type AccessToken, AccessTokens, type Scope } from "../server/index.ts";
import { type Arguments, usageError } from "./arguments.ts";
import { loadProject } from "./config.ts";
import type { Console } from "./console.ts";
import type { Flags } from "./flags.ts";
import { openExisting } from "./stored.ts";
import { column } from "./text.ts";

const units = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `rivulet token`: creates, lists and revokes the tokens of a store. */
export async function manageTokens(args: Arguments, console: Console): Promise<number> {
  const { operands, flags } = args;
  const [action = "list", id] = operands;
  if (action === "create" && id === undefined) return createToken(flags, console);
  if (action === "list" && id === undefined)
    return withTokens(flags, console, (tokens) => listTokens(tokens, flags, console));
  if (action !== "revoke")
    throw usageError(
      `rivulet token does not know ${JSON.stringify(operands.join(" ").slice(0, 60))}.`,
      "Write rivulet token create, rivulet token list or rivulet token revoke <id>.",
    );
  if (id === undefined)
    throw usageError("rivulet token revoke needs an id.", "rivulet token list shows the ids.");
  return withTokens(flags, console, async (tokens) => {
    await tokens.revoke(id);
    console.note(`The token ${id} is revoked.`);
  });
}

async function createToken(flags: Flags, console: Console): Promise<number> {
  const scopes = scopesIn(flags.scope);
  const lifeMs = lifeIn(flags.expires);
  const { options, store } = await loadProject(flags, console.env);
  try {
    checkShared(store);
    if (options.auth !== undefined && flags.user === undefined)
      throw usageError(
        "The config has `auth`, so a token needs a user.",
        "Add --user <id>, the user whose sessions the token reaches.",
      );
    const { secret, token } = await new AccessTokens(store, systemClock).create({
      scopes,
      ...(flags.user !== undefined && { userId: flags.user }),
      ...(flags.name !== undefined && { name: flags.name }),
      ...(lifeMs !== undefined && { expiresAt: Date.now() + lifeMs }),
    });
    console.print(secret);
    console.note(
      `The token ${token.id} is not shown again. Revoke it with: rivulet token revoke ${token.id}`,
    );
  } finally {
    await store.close();
  }
  return 0;
}

async function withTokens(
  flags: Flags,
  console: Console,
  work: (tokens: AccessTokens) => Promise<void>,
): Promise<number> {
  const store = await openExisting(flags, console);
  try {
    checkShared(store);
    await work(new AccessTokens(store, systemClock));
  } finally {
    await store.close();
  }
  return 0;
}

async function listTokens(tokens: AccessTokens, flags: Flags, console: Console): Promise<void> {
  const found = await tokens.list();
  if (found.length === 0 && !flags.json) console.note("There is no token.");
  for (const token of found) console.print(flags.json ? JSON.stringify(token) : lineOf(token));
}

function lineOf({
  id,
  name = "",
  userId = "-",
  scopes,
  createdAt,
  expiresAt,
}: AccessToken): string {
  const date = (ms: number) => new Date(ms).toISOString().slice(0, 16);
  const end =
    expiresAt === undefined
      ? "does not expire"
      : `${expiresAt <= Date.now() ? "expired" : "expires"} ${date(expiresAt)}`;
  const start = `created ${date(createdAt)}`;
  return `${id}  ${column(userId, 16)} ${column(scopes.join(","), 11)} ${start}  ${end}  ${name}`.trimEnd();
}

/** A token of a store in memory would end with this command. */
function checkShared(store: Store): void {
  if (store.memory)
    throw usageError(
      "The store of the config is in this process's memory, so no server would see the token.",
      "Use a store on SQLite or PostgreSQL.",
    );
}

function scopesIn(text = "read,write"): readonly Scope[] {
  const scopes = text.split(",");
  const isScope = (scope: string): scope is Scope => scope === "read" || scope === "write";
  if (scopes.every(isScope)) return [...new Set(scopes)];
  throw usageError(
    `--scope must be read, write or read,write, got ${JSON.stringify(text.slice(0, 40))}.`,
    "Write --scope read.",
  );
}

function lifeIn(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, count = "", unit = ""] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  const life = Number(count) * (units[unit as keyof typeof units] ?? 0);
  if (life > 0) return life;
  throw usageError(
    `--expires must be a number with m, h or d, got ${JSON.stringify(text.slice(0, 40))}.`,
    "Write --expires 30d.",
  );
}
