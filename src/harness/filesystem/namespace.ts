import { createHash } from "node:crypto";
import { fileError } from "./file-error.ts";

/** Whose files they are: everything that one user, session or agent writes is out of reach for the others. */
export interface Namespace {
  readonly scope: "session" | "user" | "agent";
  readonly id: string;
}

const maxIdLength = 128;
const maxNameLength = 120;

/**
 * The name of a namespace's directory. Two ids never share one, also where a disk takes upper and lower case or two
 * spellings of a letter for the same: all that is not a small letter, a digit, `-` or `_` is written as its bytes.
 */
export function namespaceDirectory({ scope, id }: Namespace): string {
  if (id === "" || id.length > maxIdLength || !id.isWellFormed()) {
    throw fileError(
      "invalid_namespace",
      `A ${scope} id must have 1 to ${maxIdLength} characters of well-formed text.`,
    );
  }
  const name = id.replace(/[^a-z0-9_-]/gu, (character) =>
    Buffer.from(character).toString("hex").replace(/../g, "=$&"),
  );
  // A "=" is followed by a digit in every other name, so the two forms never meet.
  const short =
    name.length <= maxNameLength ? name : `==${createHash("sha256").update(id).digest("hex")}`;
  return `${scope}-${short}`;
}

/** Among whom files are shared. */
export type IsolationScope = Namespace["scope"] | "global";

/** Who is at work. */
export interface AtWork {
  readonly userId?: string;
  readonly sessionId: string;
  readonly agentId: string;
}

/** The namespace of who is at work; undefined: the root itself, which is also where work without a user is done. */
export function namespaceOf(scope: IsolationScope, who: AtWork): Namespace | undefined {
  const ids = { user: who.userId, session: who.sessionId, agent: who.agentId, global: undefined };
  const id = ids[scope];
  return scope === "global" || id === undefined ? undefined : { scope, id };
}
