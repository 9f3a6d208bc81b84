import {
  type ClientContext,
  client,
  methods,
  ndJsonStream,
  type PromptResponse,
  type RequestPermissionRequest,
  type SessionUpdate,
} from "@agentclientprotocol/sdk";
import schema from "@agentclientprotocol/sdk/schema/v1/schema.json" with { type: "json" };
import { Validator } from "@cfworker/json-schema";

type Answer = "approve" | "always" | "deny" | "cancelled";

/** How a client behaves. */
export interface AcpClientOptions {
  readonly decide?: (request: RequestPermissionRequest) => Answer | Promise<Answer>;
  /** Answers forms; without it the client has none. */
  readonly fill?: (message: string) => string | undefined;
}

/** An editor for tests, which checks every message of the agent against the schema of the protocol. */
export interface AcpClient {
  readonly agent: ClientContext;
  /** The updates of all sessions, in order. */
  readonly updates: readonly SessionUpdate[];
  readonly permissions: readonly RequestPermissionRequest[];
  /** What was wrong with messages of the agent. */
  readonly problems: readonly string[];
  readonly closed: Promise<void>;
  /** Starts a session; its `say` sends a prompt and resolves to the reason of its end. */
  session(cwd: string): Promise<AcpTestSession>;
  close(): Promise<void>;
}

/** A session of the test editor. */
export interface AcpTestSession {
  readonly sessionId: string;
  say(text: string): Promise<string>;
}

type Definition = keyof typeof schema.$defs;

const validators = new Map<Definition, Validator>();

/** Why a value does not fit a definition of the protocol; undefined if it fits. */
export function acpProblem(definition: Definition, value: unknown): string | undefined {
  const known = validators.get(definition);
  const { $defs } = schema;
  const validator =
    known ?? new Validator({ $ref: `#/$defs/${definition}`, $defs } as object, "2020-12", false);
  validators.set(definition, validator);
  const { valid, errors } = validator.validate(value);
  return valid ? undefined : `${definition}: ${JSON.stringify(errors.slice(-3))}`;
}

const requests: Readonly<Record<string, Definition>> = {
  "session/update": "SessionNotification",
  "session/request_permission": "RequestPermissionRequest",
  "elicitation/create": "CreateElicitationRequest",
};
const responses: Readonly<Record<string, Definition>> = {
  initialize: "InitializeResponse",
  "session/new": "NewSessionResponse",
  "session/load": "LoadSessionResponse",
  "session/resume": "ResumeSessionResponse",
  "session/list": "ListSessionsResponse",
  "session/prompt": "PromptResponse",
  "session/close": "CloseSessionResponse",
};

interface Wire {
  readonly jsonrpc?: string;
  readonly id?: number;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** Checks both directions of a connection: the methods of requests name the definitions of their responses. */
class Inspector {
  readonly problems: string[] = [];
  readonly #sent = new Map<number, string>();

  sent({ id, method }: Wire): void {
    if (id !== undefined && method !== undefined) this.#sent.set(id, method);
  }

  received(line: string): void {
    let message: Wire;
    try {
      message = JSON.parse(line) as Wire;
    } catch {
      this.problems.push(`no JSON: ${line.slice(0, 200)}`);
      return;
    }
    const { jsonrpc, id = -1, method, params, result, error } = message;
    if (jsonrpc !== "2.0") this.problems.push(`no JSON-RPC: ${line.slice(0, 200)}`);
    const answered = method === undefined ? this.#sent.get(id) : undefined;
    const definition = method === undefined ? responses[answered ?? ""] : requests[method];
    const value = method === undefined ? result : params;
    if (error !== undefined) this.#note(acpProblem("Error", error));
    else if (definition) this.#note(acpProblem(definition, value));
    else this.problems.push(`unknown message: ${line.slice(0, 200)}`);
  }

  #note(problem: string | undefined): void {
    if (problem !== undefined) this.problems.push(problem);
  }
}

/** Passes bytes on, and shows each line. */
function lines(onLine: (line: string) => void): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let rest = "";
  return new TransformStream({
    transform(bytes, controller) {
      const [...whole] = `${rest}${decoder.decode(bytes, { stream: true })}`.split("\n");
      rest = whole.pop() ?? "";
      for (const line of whole) onLine(line);
      controller.enqueue(bytes);
    },
  });
}

/** Connects an editor to the streams of an agent. */
export async function acpClient(
  streams: {
    readonly input: ReadableStream<Uint8Array>;
    readonly output: WritableStream<Uint8Array>;
  },
  { decide = () => "approve", fill }: AcpClientOptions = {},
): Promise<AcpClient> {
  const updates: SessionUpdate[] = [];
  const permissions: RequestPermissionRequest[] = [];
  const inspector = new Inspector();
  const app = client({ name: "test" });
  app.onNotification(methods.client.session.update, ({ params }) => {
    updates.push(params.update);
  });
  app.onRequest(methods.client.session.requestPermission, async ({ params }) => {
    permissions.push(params);
    const optionId = await decide(params);
    if (optionId === "cancelled") return { outcome: { outcome: "cancelled" } };
    return { outcome: { outcome: "selected", optionId } };
  });
  app.onRequest(methods.client.elicitation.create, ({ params }) => {
    const answer = fill?.(params.message);
    return answer === undefined ? { action: "decline" } : { action: "accept", content: { answer } };
  });
  const outgoing = lines((line) => inspector.sent(JSON.parse(line) as Wire));
  const leave = new AbortController();
  const sending = outgoing.readable
    .pipeTo(streams.output, { signal: leave.signal, preventAbort: true })
    .catch(() => {});
  const incoming = streams.input.pipeThrough(lines((line) => inspector.received(line)));
  const connection = app.connect(ndJsonStream(outgoing.writable, incoming));
  const { agent } = connection;
  await agent.request("initialize", {
    protocolVersion: 1,
    clientCapabilities: fill ? { elicitation: { form: {} } } : {},
  });
  return {
    ...{ agent, updates, permissions, closed: connection.closed },
    problems: inspector.problems,
    async close() {
      leave.abort();
      await sending;
      await streams.output.close().catch(() => {}); // the agent may have ended
      connection.close();
    },
    async session(cwd) {
      const { sessionId } = await agent.request("session/new", { cwd, mcpServers: [] });
      return {
        sessionId,
        async say(text) {
          const prompt = [{ type: "text" as const, text }];
          const request = { sessionId, prompt };
          const response = await agent.request<PromptResponse>("session/prompt", request);
          return response.stopReason;
        },
      };
    },
  };
}

/** What an editor shows after some updates. */
export interface Shown {
  /** The text of the agent by message. */
  readonly messages: Readonly<Record<string, string>>;
  readonly thoughts: string;
  readonly user: string;
  readonly calls: Readonly<Record<string, { title: string; status: string; text: string }>>;
  readonly plan: readonly string[];
}

/** Folds updates as an editor does. */
export function shownBy(updates: readonly SessionUpdate[]): Shown {
  const messages: Record<string, string> = {};
  const calls: Record<string, { title: string; status: string; text: string }> = {};
  let [thoughts, user] = ["", ""];
  let plan: readonly string[] = [];
  for (const update of updates) {
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
      case "agent_thought_chunk":
      case "user_message_chunk": {
        const text = update.content.type === "text" ? update.content.text : "";
        if (update.sessionUpdate === "agent_thought_chunk") thoughts += text;
        else if (update.sessionUpdate === "user_message_chunk") user += text;
        else {
          const id = update.messageId ?? "";
          messages[id] = `${messages[id] ?? ""}${text}`;
        }
        break;
      }
      case "tool_call":
      case "tool_call_update": {
        const { toolCallId, title, status, content } = update;
        const before = calls[toolCallId] ?? { title: "", status: "", text: "" };
        const text = content?.map((each) =>
          each.type === "content" && each.content.type === "text" ? each.content.text : "",
        );
        calls[toolCallId] = {
          title: title ?? before.title,
          status: status ?? before.status,
          text: text?.join("") ?? before.text,
        };
        break;
      }
      case "plan":
        plan = update.entries.map(({ content, status }) => `${content}: ${status}`);
        break;
      default:
    }
  }
  return { messages, thoughts, user, calls, plan };
}
