import { api, server } from "./api.ts";
import { everyPage, polled } from "./polled.ts";

/** The approvals that wait for the user, in all sessions. */
export const { refresh: refreshWaiting, useBody: useWaiting } = polled(
  () =>
    everyPage((before) =>
      server.approvals({ limit: 100, ...(before !== undefined && { before }) }),
    ),
  5_000,
);

/** The approvals that wait in the sessions of all users, for operators. */
export const { useBody: useWaitingOfAll } = polled(() => everyPage(api.waitingOfAll), 5_000);
