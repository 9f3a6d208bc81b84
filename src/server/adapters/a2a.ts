import type { Route } from "../route.ts";
export const a2aRoutes: readonly Route[] = [];
