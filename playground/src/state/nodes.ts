import { api } from "./api.ts";
import { polled } from "./polled.ts";

/** The processes on the store of the server, for operators. */
export const { refresh: refreshNodes, useBody: useNodes } = polled(api.nodes, 3_000);
