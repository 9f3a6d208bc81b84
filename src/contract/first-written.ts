import { RivuletError } from "../base/error.ts";
import type { Store } from "./store.ts";

/** The content of a file that the first process which needs it creates. */
export async function firstWritten(
  store: Store,
  path: string,
  create: () => Uint8Array,
): Promise<Uint8Array> {
  const stored = await store.files.get(path);
  if (stored) return stored.data;
  const data = create();
  try {
    await store.files.put(path, data, { ifVersion: 0 });
    return data;
  } catch (error) {
    // Another process was faster.
    if (error instanceof RivuletError && error.code === "conflict")
      return firstWritten(store, path, create);
    throw error;
  }
}
