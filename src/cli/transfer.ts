import { createReadStream, existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream/promises";
import { RivuletError } from "../base/error.ts";
import { exportConversations, importConversations } from "../store/index.ts";
import type { Arguments } from "./arguments.ts";
import { loadProject } from "./config.ts";
import type { Console } from "./console.ts";
import { openExisting } from "./stored.ts";

/** `rivulet export`: prints conversations of the store. */
export async function exportStore(
  { operands, flags }: Arguments,
  console: Console,
): Promise<number> {
  const store = await openExisting(flags, console);
  const ids = operands.length > 0 ? operands : undefined;
  await pipeline(exportConversations(store, ids), process.stdout, { end: false });
  await store.close();
  return 0;
}

/** `rivulet import`: adds exported conversations to the store of this folder. */
export async function importStore(
  { operands: [file], flags }: Arguments,
  console: Console,
): Promise<number> {
  if (file !== undefined && !existsSync(file))
    throw new RivuletError("recording_not_found", `There is no file ${file}.`, {
      hint: "Pass a file that rivulet export has written.",
    });
  const { store } = await loadProject(flags, console.env);
  const input = file === undefined ? process.stdin : createReadStream(file);
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  const { sessions, skipped } = await importConversations(store, lines);
  await store.close();
  console.note(`Imported ${sessions.length} ${sessions.length === 1 ? "session" : "sessions"}.`);
  for (const name of skipped) console.note(`${name} exists already and was not changed.`);
  return skipped.length === 0 ? 0 : 1;
}
