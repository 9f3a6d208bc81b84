/** Options of a store for tests that read the whole logs of ended tasks. */
export const keepEvents = { retention: { logs: { maxBytes: Number.POSITIVE_INFINITY } } } as const;
