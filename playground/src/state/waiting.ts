import { api, server } from "./api.ts";
import { polled } from "./polled.ts";

/** The approvals that wait for the user, in all sessions. */
export const { refresh: refreshWaiting, useBody: useWaiting } = polled(
  async () => (await server.approvals({ limit: 100 })).approvals,
  4_000,
);

/** The approvals that wait in the sessions of all users, for operators. */
export const { useBody: useWaitingOfAll } = polled(
  async () => (await api.waitingOfAll()).approvals,
  4_000,
);
