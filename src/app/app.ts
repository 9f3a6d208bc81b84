import { Hono } from "hono";
import {
  a2aRoutes,
  agentScopeRoutes,
  agUiRoutes,
  aiSdkRoutes,
  type McpOffer,
  type McpServed,
  mcpOfferFields,
  mcpRoutes,
  responsesRoutes,
} from "../adapters/index.ts";
import { agentWith, processOf, settingsBehind } from "../agent/index.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { createIds } from "../base/id.ts";
import * as is from "../base/options.ts";
import { type Fields, invalid, readOptions } from "../base/options.ts";
import { type Agent, agentField, type Store } from "../contract/index.ts";
import { HarnessAgent, skillsOf } from "../harness/index.ts";
import type { Prices } from "../protocol/index.ts";
import {
  AccessTokens,
  type Addresses,
  type AuthOptions,
  approvalRoutes,
  authenticator,
  authField,
  badRequest,
  blobRoutes,
  commonHeaders,
  credentialOf,
  Door,
  errorResponse,
  Feeds,
  keepPrompts,
  limitFields,
  limitsOf,
  loopback,
  Metrics,
  metricsRoute,
  nodeRoutes,
  openApi,
  PageSessions,
  pageRoutes,
  pricesField,
  promptRoutes,
  type RequestLog,
  type Route,
  retryRoute,
  type ServerLimits,
  type Services,
  Streams,
  sessionRoutes,
  Trees,
  taskRoutes,
  tokenField,
  UnsentBytes,
  UserLimits,
  usageRoutes,
} from "../server/index.ts";
import { openStore, storeField } from "../store/index.ts";

/** The routes of other protocols. */
const adapterRoutes = {
  a2a: a2aRoutes,
  agentscope: agentScopeRoutes,
  "ag-ui": agUiRoutes,
  "ai-sdk": aiSdkRoutes,
  mcp: mcpRoutes(),
  responses: responsesRoutes,
} as const;
/**
 * A protocol of another ecosystem: `a2a` (Agent2Agent), `agentscope` (the AgentScope task protocol), `ag-ui` (AG-UI),
 * `ai-sdk` (the chats of the AI SDK), `mcp` (the Model Context Protocol), or `responses` (the Responses API of OpenAI).
 */
export type AdapterName = keyof typeof adapterRoutes;

/** Options of a server. */
export interface AppOptions {
  /** The agents that clients can start. */
  readonly agents: readonly Agent[];
  /** A store, `"memory"`, `"sqlite:path"` or `"postgres://…"`; defaults to the one that the agents share. */
  readonly store?: Store | string;
  /** How callers authenticate. Without it the server accepts only this machine, with `token`. */
  readonly auth?: AuthOptions;
  /** The token of the operator on this machine. */
  readonly token?: string;
  /** The host names that the server answers for; without `auth` always those of this machine. */
  readonly hosts?: readonly string[];
  /** Pages of other origins that may call, such as `https://app.example`; none by default. */
  readonly origins?: readonly string[];
  /** Other protocols that the server speaks; none by default. */
  readonly adapters?: readonly AdapterName[];
  /** What the adapter `mcp` offers besides the agents. */
  readonly mcp?: McpOffer;
  /** False: only the routes of `adapters`, and those of the files that they link to. */
  readonly nativeRoutes?: boolean;
  /** The address under which clients reach the server, for agent cards and cookies; defaults to that of the request. */
  readonly publicUrl?: string;
  /** How long the cookie of a page is valid; defaults to 24 hours. */
  readonly cookieMs?: number;
  readonly limits?: ServerLimits;
  /** True: keeps the system prompt and the tools of each model call, for `GET /v1/tasks/{id}/prompts`. */
  readonly prompts?: boolean;
  /** Prices of tokens, by model, for calls of agents without `price`; other models have public prices. */
  readonly prices?: Prices;
  /** For a demonstration on this machine: adds `POST /v1/demo/kill`, which calls `kill`. Not together with `auth`. */
  readonly demo?: { readonly kill: () => void };
  /** Called once per request; defaults to a line of JSON on stdout. False: no log. */
  readonly log?: ((entry: RequestLog) => void) | false;
  /** The silence after which a stream sends a comment; defaults to 15 seconds. */
  readonly heartbeatMs?: number;
  /** The delay that readers are told to wait before they connect again; defaults to 1500 ms. */
  readonly retryMs?: number;
  /** True: `/` is the playground, a page that shows the agents at work. */
  readonly page?: boolean;
  readonly clock?: Clock;
}

/** The rules for the options of `createApp`. */
export const appFields: Fields<AppOptions> = {
  agents: is.required(is.listOf(agentField), "[assistant]"),
  store: storeField,
  auth: authField,
  token: tokenField,
  hosts: is.listOf(is.name),
  origins: is.listOf({
    fits: (value) =>
      typeof value === "string" && URL.canParse(value) && new URL(value).origin === value,
    expected: "an origin such as https://app.example",
  }),
  adapters: is.listOf(is.oneOf(...(Object.keys(adapterRoutes) as readonly AdapterName[]))),
  mcp: is.options(mcpOfferFields),
  nativeRoutes: is.flag,
  publicUrl: {
    fits: (value) =>
      typeof value === "string" && /^https?:$/.test(URL.parse(value)?.protocol ?? ""),
    expected: "a URL such as https://agents.example",
  },
  cookieMs: is.duration,
  limits: is.options(limitFields),
  prompts: is.flag,
  prices: pricesField,
  demo: is.options({ kill: is.required(is.callback) }),
  log: is.orFalse(is.callback),
  heartbeatMs: is.duration,
  retryMs: is.count,
  page: is.flag,
  clock: is.clock,
};

/** Long enough for the response to leave the process. */
const killDelayMs = 20;

/** A server without its network: the app, and what `serve` needs to start and end it. */
export interface OpenApp {
  readonly app: Hono;
  readonly agents: readonly Agent[];
  readonly store: Store;
  readonly services: Services;
  /** Refuses new requests and ends all streams. */
  close(): Promise<void>;
}

/** Creates a Hono app that serves agents; mount it anywhere, or pass its `fetch` to Bun, Deno or Next. */
export function createApp(options: AppOptions): Hono {
  return openApp(readOptions("createApp()", options, appFields)).app;
}

/** The routes that do not belong to a task or a session. */
const commonRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/healthz",
    needs: "nothing",
    summary: "Check that the server runs.",
    returns: { status: 200, description: '`{ status: "ok" }`' },
    handle: ({ headers }) => Response.json({ status: "ok" }, { headers }),
  },
  {
    method: "GET",
    path: "/openapi.json",
    needs: "nothing",
    summary: "Read this document.",
    returns: { status: 200, description: "The OpenAPI document." },
    handle: async ({ services, request, headers }) => {
      const cookieName = await services.pages.nameFor(request);
      return Response.json(openApi(services.routes, cookieName), { headers });
    },
  },
  {
    method: "POST",
    path: "/v1/cookie",
    needs: "read",
    summary:
      "Exchange the token of the Authorization header for the cookie of a session, which EventSource sends.",
    returns: { status: 204, description: "The cookie is set." },
    handle: async ({ services, caller, request, headers }) => {
      if (credentialOf(request) === undefined)
        throw badRequest(
          "The request has no bearer token.",
          "Send it in the Authorization header.",
        );
      const cookie = await services.pages.open(request, caller);
      return new Response(null, { status: 204, headers: { ...headers, "set-cookie": cookie } });
    },
  },
  {
    method: "DELETE",
    path: "/v1/cookie",
    needs: "read",
    summary: "End the session of the page's cookie.",
    returns: { status: 204, description: "The cookie is removed, and is valid no more." },
    handle: async ({ services, request, headers }) => {
      const cookie = await services.pages.close(request);
      return new Response(null, { status: 204, headers: { ...headers, "set-cookie": cookie } });
    },
  },
];

/** The route of a demonstration: what a crash does to running agents. */
function demoRoutes({ demo }: AppOptions): readonly Route[] {
  if (demo === undefined) return [];
  return [
    {
      method: "POST",
      path: "/v1/demo/kill",
      needs: "write",
      summary: "Kill the server process, as a crash would.",
      returns: { status: 202, description: "The process ends after this response." },
      handle: ({ headers }) => {
        setTimeout(demo.kill, killDelayMs);
        return Response.json({ status: "killed" }, { status: 202, headers });
      },
    },
  ];
}

/** The routes that every server has, with the scope that each needs. */
export const routes: readonly Route[] = [
  ...commonRoutes,
  metricsRoute,
  ...taskRoutes,
  retryRoute,
  ...promptRoutes,
  ...blobRoutes,
  ...sessionRoutes,
  ...approvalRoutes,
  ...nodeRoutes,
  ...usageRoutes,
];

/** All routes of a server: one array, with those of its adapters. */
function routesOf(options: AppOptions): readonly Route[] {
  const adapters = [...new Set(options.adapters)].flatMap((name) =>
    name === "mcp" ? mcpRoutes(mcpServed(options)) : adapterRoutes[name],
  );
  if (options.nativeRoutes === false) return [...blobRoutes, ...adapters];
  return [...routes, ...adapters, ...demoRoutes(options)];
}

/** Throws if options need routes that `nativeRoutes: false` leaves out. */
function checkRoutes({ nativeRoutes, adapters = [], page, demo, prompts }: AppOptions): void {
  if (nativeRoutes !== false) return;
  if (adapters.length === 0)
    throw invalid("`nativeRoutes` is false and `adapters` is empty.", 'Pass adapters: ["ai-sdk"].');
  if (page || demo || prompts)
    throw invalid(
      "`page`, `demo` and `prompts` need the native routes.",
      "Remove `nativeRoutes`, or remove these options.",
    );
}

/** What the adapter `mcp` offers. */
export function mcpServed({ agents, mcp }: Pick<AppOptions, "agents" | "mcp">): McpServed {
  return { ...mcp, skills: () => skillsOf(agents) };
}

/** Without `auth` the server answers only for the names of this machine. */
function addressesOf({ auth, hosts, origins = [] }: AppOptions): Addresses {
  if (auth !== undefined) return { origins, ...(hosts && { hosts }) };
  return { origins, hosts: [...loopback, ...(hosts ?? [])] };
}

/** Builds the app from checked options. */
export function openApp(options: AppOptions): OpenApp {
  const { agents, store } = bindAgents(options);
  const { auth, token, clock = systemClock, heartbeatMs = 15_000, retryMs = 1_500 } = options;
  if (auth === undefined && token === undefined)
    throw invalid(
      "`auth` or `token` is required.",
      "Pass who may call: auth: { tokens }, or a secret `token`.",
    );
  if (auth !== undefined && options.demo !== undefined)
    throw invalid(
      "`demo` and `auth` are both set.",
      "Remove `demo`: it is for one person on this machine.",
    );
  checkRoutes(options);
  if (options.prompts) keepPrompts(store);
  const { flushes } = processOf(store);
  flushes.adapt();
  const limits = limitsOf(options.limits);
  const feeds = new Feeds(store);
  const trees = new Trees(store);
  const streams = new Streams({
    ...{ store, feeds, trees, clock, heartbeatMs, retryMs },
    ...{ maxBufferBytes: limits.bufferBytes, maxStreamMs: limits.streamMs },
    unsent: new UnsentBytes(limits.totalBufferBytes),
  });
  const { publicUrl, cookieMs } = options;
  const pages = new PageSessions(store, clock, {
    ...(publicUrl !== undefined && { publicUrl }),
    ...(cookieMs !== undefined && { cookieMs }),
  });
  const services: Services = {
    routes: routesOf(options),
    ...(publicUrl !== undefined && { publicUrl }),
    agents: new Map(agents.map((agent) => [agent.name, agent])),
    ...{ store, streams, trees },
    ids: createIds({ clock }),
    limits: new UserLimits(limits, clock, store, () => flushes.isOverloaded),
    metrics: new Metrics(flushes),
    pages,
    prices: options.prices ?? {},
    background: (work) => void work.catch(() => {}), // the log of the task has the error
  };
  const door = new Door({
    services,
    addresses: addressesOf(options),
    authenticator: authenticator(
      auth,
      token,
      (request) => pages.find(request),
      new AccessTokens(store, clock),
    ),
    limits,
    clock,
    log: options.log ?? ((entry) => console.log(JSON.stringify(entry))),
  });
  const app = new Hono();
  const pageFiles = options.page ? pageRoutes(options.demo !== undefined) : [];
  for (const route of [...services.routes, ...pageFiles])
    app.on(route.method, route.path, (context) => door.answer(context, route));
  if (options.origins?.length) app.options("*", (context) => door.preflight(context));
  app.notFound((context) => door.answer(context, undefined));
  app.onError((error) => errorResponse(error, { ...commonHeaders }));
  const close = async () => {
    door.isClosing = true;
    services.limits.close();
    services.metrics.close();
    await streams.close();
  };
  return { app, agents, store, services, close };
}

/** Checks that all agents use one store; those that have none of their own get the server's. */
export function bindAgents({
  agents,
  store: given,
}: Pick<AppOptions, "agents" | "store">): Pick<OpenApp, "agents" | "store"> {
  const stores = agents.map((agent) => {
    const settings = settingsBehind(agent);
    if (settings) return settings.store;
    throw invalid(
      `The agent ${agent.name} does not run in this process.`,
      "Pass a ReActAgent or a HarnessAgent.",
    );
  });
  const [first] = stores;
  if (first === undefined) throw invalid("`agents` is empty.", "Pass agents: [assistant].");
  const names = new Set(agents.map(({ name }) => name));
  if (names.size < agents.length)
    throw invalid("Two agents have the same name.", "Give each agent its own name.");
  const store = given === undefined ? first : openStore(given);
  const bound = agents.map((agent, index) => {
    if (stores[index] === store) return agent;
    if (given !== undefined && !(agent instanceof HarnessAgent)) return agentWith(agent, { store });
    throw invalid(
      `The agent ${agent.name} uses another store than the server.`,
      "Pass the same `store` to all agents and to the server.",
    );
  });
  return { agents: bound, store };
}
