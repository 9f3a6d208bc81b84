import { useEffect } from "react";
import { cell, useCell } from "./store.ts";

/** Old sessions come on later pages; those of more than so many pages are not looked at. */
const mostPages = 20;

/** An answer of the server, read again and again while a component shows it. */
export function polled<Body>(read: () => Promise<Body>, everyMs: number) {
  const held = cell<{ readonly body: Body | undefined }>({ body: undefined });
  let readers = 0;
  let timer: ReturnType<typeof setInterval> | undefined;

  /** Reads it now. */
  async function refresh(): Promise<void> {
    const body = await read().catch(() => undefined); // the next look tells
    if (body !== undefined) held.set({ body });
  }

  function useBody(): Body | undefined {
    useEffect(() => {
      readers += 1;
      if (readers === 1) {
        void refresh();
        timer = setInterval(
          () => document.visibilityState === "visible" && void refresh(),
          everyMs,
        );
      }
      return () => {
        readers -= 1;
        if (readers === 0) clearInterval(timer);
      };
    }, []);
    return useCell(held, ({ body }) => body);
  }

  return { refresh, useBody };
}

/** Reads all pages of a list whose pages may be empty although another one follows. */
export async function everyPage<Approval>(
  read: (before?: string) => Promise<{
    readonly approvals: readonly Approval[];
    readonly next?: string;
  }>,
): Promise<readonly Approval[]> {
  const all: Approval[] = [];
  let before: string | undefined;
  for (let page = 0; page < mostPages; page++) {
    const { approvals, next } = await read(before);
    all.push(...approvals);
    if (next === undefined) break;
    before = next;
  }
  return all;
}
