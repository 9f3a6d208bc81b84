/** Limits of a server that no test reaches. */
export const unlimited = {
  ...{ requestsPerSecond: 1_000_000, streams: 1_000_000, runs: 1_000_000 },
  ...{ waitingRuns: 1_000_000, startsPerMinute: 1_000_000, wrongTokensPerMinute: 1_000_000 },
};
