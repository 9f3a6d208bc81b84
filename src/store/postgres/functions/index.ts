import { basics } from "./basics.ts";
import { commits } from "./commits.ts";
import { deletion } from "./deletion.ts";
import { leases, limitedClaims } from "./leases.ts";
import { posts, tasks } from "./records.ts";

/**
 * The functions carry the version of the schema in their names: during a rolling update, processes with the version
 * before call theirs. Each statement of a function sees what was committed before it, so one that runs after a lock sees
 * all that the lock protects.
 */
export const functions = basics + tasks + posts + commits + leases + deletion;

/** The functions that version 2 adds. */
export const functionsOfVersion2 = limitedClaims;
