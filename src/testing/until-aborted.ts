/** Rejects with the signal's reason when it aborts, unless `release` aborts first; never resolves. */
export function untilAborted(
  signal: AbortSignal | null | undefined,
  release?: AbortSignal,
): Promise<never> {
  return new Promise((_, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), {
      once: true,
      ...(release && { signal: release }),
    });
  });
}
