import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

/** The result of a task, as the client of the tasks extension reports it. */
export type TaskOutcome =
  | { readonly status: "completed"; readonly result: Readonly<Record<string, unknown>> }
  | { readonly status: "failed"; readonly error: Error & { readonly code?: number } }
  | { readonly status: "cancelled" };

/** A call of a tool that the client follows. */
export interface TaskExecution {
  readonly kind: "task" | "immediate";
  readonly handle?: { readonly taskId: string };
  settle(options?: {
    readonly onEvent?: (event: { readonly task?: { readonly status: string } }) => void;
  }): Promise<{ readonly outcome: TaskOutcome }>;
  cancel(): Promise<void>;
  detach(): Promise<void>;
  serializeReference(): object;
}

interface InputRequest {
  readonly kind: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** A session of the client of the tasks extension. */
export interface TasksSession {
  callTool(name: string, params: object, options?: object): Promise<TaskExecution>;
  resumeTask(reference: object): Promise<TaskExecution>;
  task(taskId: string): {
    snapshot(): Promise<{
      readonly status: string;
      readonly raw: { readonly inputRequests?: object };
    }>;
    cancel(): Promise<void>;
    update(responses: object): Promise<void>;
  };
  close(): Promise<void>;
}

interface TasksPackage {
  createTaskSessionFromClient(client: Client, options: object): TasksSession;
}

// Type checks run without the packages of tools/mcp, so the types that the tests use stand above.
const entry = "tools/mcp/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js";
const { createTaskSessionFromClient } = (await import(
  pathToFileURL(resolve(entry)).href
)) as TasksPackage;

const protocolVersion = "2026-07-28";
const clientInfo = { name: "test", version: "1" };
const clientCapabilities = { elicitation: { form: {} } };

/** The requests of one server, which the client of the extension sends past the SDK: the SDK rejects tasks as results. */
function rawDispatch(url: string, token: string) {
  let id = 0;
  return async (
    request: { readonly method: string; readonly params: Readonly<Record<string, unknown>> },
    { context, signal }: { context?: { headers?: Record<string, string> }; signal?: AbortSignal },
  ) => {
    const { method, params } = request;
    const headers = new Headers({
      authorization: `Bearer ${token}`,
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": protocolVersion,
      "mcp-method": method,
      ...(typeof params.name === "string" && { "mcp-name": params.name }),
      ...context?.headers,
    });
    id += 1;
    const body = JSON.stringify({ jsonrpc: "2.0", id, ...request });
    const response = await fetch(url, { method: "POST", headers, body, ...(signal && { signal }) });
    const text = await response.text();
    const type = response.headers.get("content-type") ?? "";
    const json = type.includes("json") ? text : (/^data: (.*)$/m.exec(text)?.[1] ?? "");
    const { result, error } = JSON.parse(json);
    return error === undefined ? { kind: "result", result } : { kind: "error", error };
  };
}

/** What a user answers to a question. */
export type Fill = (params: Readonly<Record<string, unknown>>) => object;

/** Connects the official client of the tasks extension to a server; `fill` answers what tasks wait for. */
export async function openTasks(url: string, token: string, fill?: Fill) {
  const client = new Client(clientInfo, {
    capabilities: clientCapabilities,
    versionNegotiation: { mode: { pin: protocolVersion } },
  });
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const errors: Error[] = [];
  const session = createTaskSessionFromClient(client, {
    endpointId: url,
    rawDispatch: rawDispatch(url, token),
    v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
    onError: (error: Error) => void errors.push(error),
    ...(fill && { onInputRequest: ({ params = {} }: InputRequest) => fill(params) }),
  });
  return {
    session,
    errors,
    async close() {
      await session.close();
      await client.close();
    },
  };
}
