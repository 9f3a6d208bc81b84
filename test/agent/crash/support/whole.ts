import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { sqliteStore } from "../../../../src/index.ts";
import type { CastName } from "./crash-cast.ts";
import { type Outcome, outcomeIn } from "./remains.ts";
import { startAgent } from "./run-agent.ts";

/** A new folder in a folder. */
export function newFolder(parent: string, name: string): string {
  const path = join(parent, name);
  mkdirSync(path);
  return path;
}

/** How the conversation ends when nothing comes between. */
export async function wholeOutcome(parent: string, cast?: CastName): Promise<Outcome> {
  const folder = newFolder(parent, `whole-${cast ?? "steps"}`);
  expect(await startAgent(folder, undefined, cast).ended).toMatchObject({ code: 0, problems: "" });
  const store = sqliteStore(join(folder, "store.db"));
  const outcome = await outcomeIn(store);
  await store.close();
  return outcome;
}
