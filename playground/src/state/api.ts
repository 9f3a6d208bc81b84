import { connect } from "rivulet/client";
import { RivuletError } from "rivulet/protocol";

/** The server that sent the page, from the folder of the page on. */
export const server = connect(new URL(".", location.href).href);

/** A tool, a subagent or a skill. */
export interface Offer {
  readonly name: string;
  readonly description?: string;
}
/** A subagent, with the names of its tools and its own subagents. */
export interface SubagentOffer extends Offer {
  readonly tools?: readonly string[];
  readonly subagents?: readonly SubagentOffer[];
}
/** An agent of the server and what its model can use. */
export interface AgentOffer extends Offer {
  /** Written as `provider:id`. */
  readonly model?: string;
  /** The models to choose from, its own first; absent without a choice. */
  readonly models?: readonly string[];
  /** The name of its folder. */
  readonly workspace?: string;
  readonly tools?: readonly Offer[];
  readonly subagents?: readonly SubagentOffer[];
  readonly skills?: readonly Offer[];
}

/** A model call of a task; with `messages` and the rest if it was asked for alone. */
export interface Prompt {
  readonly iteration: number;
  readonly message_id?: string;
  readonly model?: string;
  readonly purpose?: string;
  readonly usage?: { readonly inputTokens?: number; readonly outputTokens?: number };
  readonly system_prompt?: string;
  readonly tools?: readonly (Offer & { readonly input_schema?: unknown })[];
  readonly options?: Readonly<Record<string, unknown>>;
  readonly messages?: readonly { readonly role: string; readonly content: unknown }[];
}

/** A file or a folder of the workspace. */
export interface FileEntry {
  readonly path: string;
  readonly type: "file" | "directory" | string;
  readonly size?: number;
}

/** The tasks of a session and what it was forked from. */
export interface SessionBody {
  readonly session: {
    readonly session_id: string;
    readonly title?: string;
    readonly forked_from?: { readonly session_id: string; readonly task_id: string };
  };
  readonly tasks: readonly {
    readonly id: string;
    /** The name of the agent that was asked. */
    readonly agent: string;
    readonly status: string;
    readonly created_at: number;
  }[];
}

/** A task; one that does not move says what it waits for. */
export interface TaskBody {
  readonly status: string;
  readonly waits?: {
    readonly reason:
      | "busy"
      | "owner_silent"
      | "unknown_agent"
      | "unknown_version"
      | "unknown_place"
      | "user_limit";
    readonly left_ms?: number;
  };
}

/** A process on the store of the server. */
export interface NodeBody {
  readonly id: string;
  readonly name: string;
  readonly is_live: boolean;
  readonly silent_ms: number;
  readonly agents: readonly { readonly agent_id: string; readonly version?: string }[];
  readonly places: readonly string[];
  readonly sessions: readonly string[];
}

/** A session that no process runs although it has work. */
export interface WaitingBody {
  readonly session_id: string;
  readonly agent?: string;
  readonly version?: string;
  readonly place?: string;
  readonly reason?: string;
}

/** The processes on the store of the server, what waits for one, and what was judged poison. */
export interface NodesBody {
  readonly nodes: readonly NodeBody[];
  readonly waiting: readonly WaitingBody[];
  readonly poisoned: readonly {
    readonly session_id: string;
    readonly task_id: string;
    readonly message: string;
  }[];
}

/** An approval as operators see it. */
export interface AskedBody {
  readonly approval_id: string;
  readonly session_id: string;
  readonly path?: string;
  readonly agent: string;
  readonly user?: string;
  readonly call: { readonly name: string };
}

const segment = encodeURIComponent;

export const api = {
  agents: () =>
    request<{ agents: readonly AgentOffer[]; scopes: readonly string[] }>("GET", "v1/agents"),
  nodes: () => request<NodesBody>("GET", "v1/nodes"),
  waitingOfAll: (before?: string) =>
    request<{ approvals: readonly AskedBody[]; next?: string }>(
      "GET",
      `v1/approvals?all=true&limit=200${before === undefined ? "" : `&before=${segment(before)}`}`,
    ),
  move: (sessionId: string, to: { readonly place: string; readonly version: string }) =>
    request("POST", `v1/sessions/${segment(sessionId)}/move`, to),
  session: (id: string) => request<SessionBody>("GET", `v1/sessions/${segment(id)}?limit=1`),
  task: (id: string) => request<TaskBody>("GET", `v1/tasks/${segment(id)}`),
  prompts: (taskId: string, iteration?: number) =>
    request<{ prompts: readonly Prompt[] }>(
      "GET",
      `v1/tasks/${segment(taskId)}/prompts${iteration === undefined ? "" : `?iteration=${iteration}`}`,
    ),
  fork: (sessionId: string, taskId: string) =>
    request<{ session: { session_id: string } }>("POST", `v1/sessions/${segment(sessionId)}/fork`, {
      task_id: taskId,
    }),
  files: (sessionId: string, path: string) =>
    request<{ entries: readonly FileEntry[]; cut?: boolean }>(
      "GET",
      `v1/sessions/${segment(sessionId)}/files?path=${segment(path)}`,
    ),
  async file(sessionId: string, path: string): Promise<string> {
    const names = path.split("/").map(segment).join("/");
    const response = await send("GET", `v1/sessions/${segment(sessionId)}/files/${names}`);
    return response.text();
  },
  /** The text of a file; undefined if there is none. It looks first, because the browser reports every 404. */
  async findFile(sessionId: string, path: string): Promise<string | undefined> {
    const parts = path.split("/");
    for (let depth = 0; depth < parts.length; depth++) {
      const folder = parts.slice(0, depth).join("/");
      const wanted = parts.slice(0, depth + 1).join("/");
      const { entries } = await api.files(sessionId, folder);
      if (!entries.some((entry) => entry.path === wanted)) return undefined;
    }
    return api.file(sessionId, path);
  },
  cancel: (taskId: string) =>
    request("POST", `v1/tasks/${segment(taskId)}/cancel`, { reason: "cancelled by the user" }),
  steer: (taskId: string, input: string) =>
    request("POST", `v1/tasks/${segment(taskId)}/input`, { input }),
  kill: () => request("POST", "v1/demo/kill", {}),
  /** Exchanges a token for the cookie that the page uses from then on. */
  async signIn(token: string): Promise<void> {
    const headers = { authorization: `Bearer ${token}` };
    await send("POST", "v1/cookie", undefined, headers);
  },
};

async function request<T>(method: string, path: string, body?: object): Promise<T> {
  const response = await send(method, path, body);
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

async function send(
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<Response> {
  const response = await fetch(path, {
    method,
    headers: { ...headers, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  }).catch((cause: unknown) => {
    throw new RivuletError("unreachable", "The server does not answer.", {
      hint: "The page tries again by itself.",
      retryable: true,
      cause,
    });
  });
  if (response.ok) return response;
  const { error } = (await response.json().catch(() => ({}))) as {
    error?: { code: string; message: string; hint?: string };
  };
  throw new RivuletError(
    error?.code ?? `http_${response.status}`,
    error?.message ?? `The server answers ${response.status}.`,
    { ...(error?.hint !== undefined && { hint: error.hint }) },
  );
}
