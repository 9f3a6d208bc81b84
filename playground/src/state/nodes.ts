import { useEffect } from "react";
import { api, type NodesBody } from "./api.ts";
import { cell, useCell } from "./store.ts";

/** How often the page asks while it shows processes. */
const pollMs = 3_000;

const nodes = cell<{ readonly body: NodesBody | undefined }>({ body: undefined });
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** Reads the processes again. */
export async function refreshNodes(): Promise<void> {
  const body = await api.nodes().catch(() => undefined); // the next look tells
  if (body) nodes.set({ body });
}

/** The processes on the store of the server, kept up to date while a component shows them; for operators. */
export function useNodes(): NodesBody | undefined {
  useEffect(() => {
    readers += 1;
    if (readers === 1) {
      void refreshNodes();
      timer = setInterval(
        () => document.visibilityState === "visible" && void refreshNodes(),
        pollMs,
      );
    }
    return () => {
      readers -= 1;
      if (readers === 0) clearInterval(timer);
    };
  }, []);
  return useCell(nodes, ({ body }) => body);
}
