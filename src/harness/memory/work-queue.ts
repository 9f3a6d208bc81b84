/** Work that can be stopped. */
export type Work<T> = (signal: AbortSignal) => Promise<T>;

/** Runs work with the same key in order, and at most `limit` at once. */
export function workQueue(limit: number) {
  const last = new Map<string, Promise<unknown>>();
  const running = new Map<AbortController, string>();
  const waiting: (() => void)[] = [];

  async function withPlace<T>(key: string, run: Work<T>): Promise<T> {
    const end = new AbortController();
    running.set(end, key);
    if (running.size > limit) await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      end.signal.throwIfAborted();
      return await run(end.signal);
    } catch (error) {
      throw end.signal.aborted ? end.signal.reason : error;
    } finally {
      running.delete(end);
      waiting.shift()?.();
    }
  }
  return {
    add<T>(key: string, run: Work<T>): Promise<T> {
      const result = (last.get(key) ?? Promise.resolve()).then(() => withPlace(key, run));
      const settled = result.catch(() => {});
      last.set(key, settled);
      void settled.then(() => last.get(key) === settled && last.delete(key));
      return result;
    },
    /** Stops the work that runs or waits for a place, of one key or of all; it rejects with the reason. */
    stop(reason: Error, key?: string): void {
      for (const [end, at] of running) if (key === undefined || at === key) end.abort(reason);
    },
  };
}
