import * as is from "../base/options.ts";
import { billSessions } from "../harness/index.ts";
import { type BillKey, billKeys, priceBy, type TokenPrices } from "../protocol/index.ts";
import { forbidden } from "./auth.ts";
import { badRequest } from "./errors.ts";
import type { Call, Route } from "./route.ts";

const currency: is.Field = { ...is.name, expected: 'the name of a currency, such as "EUR"' };
const tokenPriceFields: is.Fields<TokenPrices> = {
  input: is.required(is.amount, "0.25"),
  output: is.required(is.amount, "2"),
  cachedInput: is.amount,
  cacheWrite: is.amount,
  currency,
};
/** The rule for prices by model. */
export const pricesField = is.recordOf(is.options(tokenPriceFields));

const day: is.Field = {
  fits: (value) => typeof value === "string" && isDay(value),
  expected: "a day such as 2026-11-19",
  schema: { type: "string", format: "date" },
};

function isDay(text: string): boolean {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN;
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

/** The routes that tell what tasks have used. */
export const usageRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/v1/usage",
    needs: "read",
    summary:
      "Add up tokens and cost of the sessions of the user, newest first; for an operator those of all users, or of `user`.",
    query: {
      from: day,
      to: day,
      by: is.listOf(is.oneOf(...billKeys)),
      user: is.name,
      before: is.name,
    },
    returns: {
      status: 200,
      description:
        "`{ rows: [{ agent, model, …, usage, retried, costs, unpriced_tokens, unmetered_calls }], total, next }`; add the rows of the page with `before=next`.",
    },
    handle: showUsage,
  },
];

interface UsageQuery {
  readonly from?: string;
  readonly to?: string;
  readonly by?: readonly BillKey[];
  readonly user?: string;
  readonly before?: string;
}

async function showUsage(call: Call): Promise<Response> {
  const { services, headers } = call;
  const { user, before, ...query } = call.query as UsageQuery;
  const { from, to } = query;
  if (from !== undefined && to !== undefined && from > to)
    throw badRequest(`\`from\` ${from} is after \`to\` ${to}.`, "Swap them.");
  const page = { ...usersOf(call, user), ...(before !== undefined && { before }) };
  const price = priceBy(services.prices);
  const { bill, next } = await billSessions(services.store, page, { ...query, price });
  return Response.json({ ...bill, ...(next !== undefined && { next }) }, { headers });
}

/** Whose sessions the caller sees. */
function usersOf({ caller }: Call, user: string | undefined): { readonly userId?: string | null } {
  if (caller.scopes.includes("operator")) return user === undefined ? {} : { userId: user };
  if (user === undefined || user === caller.userId) return { userId: caller.userId ?? null };
  throw forbidden(
    "Only an operator sees the usage of other users.",
    "Leave out `user`, or use a credential with the scope operator.",
  );
}
