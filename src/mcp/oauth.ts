import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type {
  OAuthClientInformationContext,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { RivuletError } from "../base/error.ts";
import { isObject } from "../base/plain.ts";
import type { McpAddress, McpOAuth, McpTokenStore } from "./connect.ts";

/** What is kept for a server: clients and tokens by authorization server, and which tokens are the newest. */
interface Kept {
  readonly clients?: Readonly<Record<string, StoredOAuthClientInformation>>;
  readonly tokens?: Readonly<Record<string, StoredOAuthTokens>>;
  readonly newest?: string;
}

let saving: Promise<void> = Promise.resolve();

/** The login of one server, for the flow of the SDK. */
export interface OAuthLogin {
  readonly provider: OAuthClientProvider;
  /** Redeems the parameters of the address that the person came back to; throws if nobody has logged in. */
  redeem(finish: (params: URLSearchParams) => Promise<void>): Promise<void>;
}

/** Creates the login of a server; its tokens are kept apart from those of other servers. */
export function openLogin({ name, url }: McpAddress, options: McpOAuth): OAuthLogin {
  const { redirectUrl, clientId, clientSecret, clientMetadataUrl, scope, authorize } = options;
  const store = typeof options.tokens === "string" ? tokenFile(options.tokens) : options.tokens;
  const key = String(url);
  let verifier = "";
  let state = "";
  let answered: URLSearchParams | undefined;
  let discovery: OAuthDiscoveryState | undefined;

  const load = async (): Promise<Kept> => {
    const all = await readAll(store);
    return Object.hasOwn(all, key) ? (all[key] as Kept) : {};
  };
  const save = (change: (kept: Kept) => Kept) => {
    // One after the other, because servers may share a file.
    saving = saving.then(async () => {
      const all = await readAll(store);
      const kept = Object.hasOwn(all, key) ? (all[key] as Kept) : {};
      await store.save(JSON.stringify({ ...all, [key]: change(kept) }));
    });
    const saved = saving;
    saving = saved.catch(() => {});
    return saved;
  };
  const issuerOf = (context?: OAuthClientInformationContext) => context?.issuer ?? "";

  const provider: OAuthClientProvider = {
    redirectUrl,
    ...(clientMetadataUrl !== undefined && { clientMetadataUrl }),
    clientMetadata: {
      client_name: "Rivulet",
      redirect_uris: [String(redirectUrl)],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: clientSecret === undefined ? "none" : "client_secret_basic",
      ...(scope !== undefined && { scope }),
    },
    state() {
      state = crypto.randomUUID();
      return state;
    },
    async clientInformation(context) {
      if (clientId !== undefined)
        return {
          client_id: clientId,
          ...(clientSecret !== undefined && { client_secret: clientSecret }),
        };
      return (await load()).clients?.[issuerOf(context)];
    },
    saveClientInformation: (client, context) =>
      save((kept) => ({ ...kept, clients: { ...kept.clients, [issuerOf(context)]: client } })),
    async tokens(context) {
      const { tokens = {}, newest = "" } = await load();
      return tokens[context?.issuer ?? newest];
    },
    saveTokens: (tokens, context) =>
      save((kept) => ({
        ...kept,
        tokens: { ...kept.tokens, [issuerOf(context)]: tokens },
        newest: issuerOf(context),
      })),
    async redirectToAuthorization(address) {
      const back = URL.parse(String(await authorize(address)));
      const params = back?.searchParams;
      if (params === undefined || params.get("state") !== state)
        throw new RivuletError("mcp_unauthorized", `The login at ${name} was not completed.`, {
          hint: "Return the address that the browser was redirected to from `authorize`.",
        });
      answered = params;
    },
    saveCodeVerifier(text) {
      verifier = text;
    },
    codeVerifier: () => verifier,
    saveDiscoveryState(found) {
      discovery = found;
    },
    discoveryState: () => discovery,
    async invalidateCredentials(what) {
      if (what === "discovery" || what === "all") discovery = undefined;
      if (what === "all" || what === "tokens") await save(({ tokens: _, ...kept }) => kept);
      if (what === "all" || what === "client") await save(({ clients: _, ...kept }) => kept);
    },
  };
  return {
    provider,
    async redeem(finish) {
      const params = answered;
      answered = undefined;
      if (params === undefined)
        throw new RivuletError("mcp_unauthorized", `The MCP server ${name} refuses the login.`, {
          hint: "Check the scopes, and log in again.",
        });
      // The next login looks again: the server may have moved to another authorization server.
      await finish(params).finally(() => {
        discovery = undefined;
      });
    },
  };
}

async function readAll(store: McpTokenStore): Promise<Readonly<Record<string, unknown>>> {
  const text = await store.load();
  if (text === undefined || text === "") return {};
  const kept: unknown = JSON.parse(text);
  return isObject(kept) ? kept : {};
}

/** A file that only the user of this process can read. */
function tokenFile(path: string): McpTokenStore {
  return {
    async load() {
      try {
        return await readFile(path, "utf8");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
        throw error;
      }
    },
    async save(text) {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      const fresh = `${path}.${crypto.randomUUID()}`;
      await writeFile(fresh, text, { mode: 0o600 });
      await chmod(fresh, 0o600); // whatever the umask is
      await rename(fresh, path);
    },
  };
}
