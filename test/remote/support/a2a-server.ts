import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type AgentCard,
  AgentCard as AgentCardJson,
  formatSSEEvent,
  type Message,
  type Part,
  Role,
  TaskState,
} from "@a2a-js/sdk";
import { LegacyJsonRpcTransportHandler } from "@a2a-js/sdk/compat/v0_3/server";
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  type RequestContext,
  ServerCallContext,
} from "@a2a-js/sdk/server";

/** One move of a scripted agent. */
export type Step =
  | { readonly artifact: string; readonly text?: string; readonly data?: unknown; append?: boolean }
  | { readonly note: string }
  | { readonly ask: string; readonly state?: TaskState }
  | { readonly end: TaskState; readonly text?: string }
  /** Answers without a task. */
  | { readonly message: string }
  | { readonly delayMs: number };
/** What an agent does with each message of a task: the texts so far. */
export type Agent = (texts: readonly string[]) => AsyncIterable<Step> | Iterable<Step>;

interface Options {
  readonly noStreams?: boolean;
  /** The versions that the card names. */
  readonly versions?: readonly string[];
  /** The tasks, to keep them over a restart. */
  readonly store?: InMemoryTaskStore;
}

/** A server of the official SDK with a scripted agent. */
export async function a2aServer(agent: Agent, options: Options = {}) {
  const { store = new InMemoryTaskStore(), noStreams = false, versions = ["1.0"] } = options;
  const received: Message[] = [];
  const cancelled = new Set<string>();
  const sinks = new Set<ServerResponse>();
  const failures: number[] = [];
  let requests: IncomingMessage["headers"][] = [];

  const executor: AgentExecutor = {
    async execute(context, bus) {
      received.push(context.userMessage);
      await play(context, bus);
    },
    async cancelTask(taskId, bus) {
      cancelled.add(taskId);
      const status = statusOf(TaskState.TASK_STATE_CANCELED);
      const contextId = (await store.load(taskId, new ServerCallContext()))?.contextId ?? "";
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }));
      bus.finished();
    },
  };

  async function play(
    { taskId, contextId, task, userMessage }: RequestContext,
    bus: ExecutionEventBus,
  ) {
    const history = [...(task?.history ?? [])].filter((one) => one !== userMessage);
    const texts = [...history, userMessage]
      .filter(({ role }) => role === Role.ROLE_USER)
      .map(textOf);
    const unique = [...new Set(texts)];
    const publish = (next: TaskState, message?: Message) => {
      const status = { ...statusOf(next), message };
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status, metadata: undefined }));
    };
    const say = (text: string): Message => ({
      messageId: crypto.randomUUID(),
      ...{ taskId, contextId, role: Role.ROLE_AGENT, parts: [part(text)] },
      ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
    });
    let hasTask = false;
    for await (const step of agent(unique)) {
      if (cancelled.has(taskId)) return;
      if (!hasTask && !("message" in step)) {
        hasTask = true;
        const status = statusOf(TaskState.TASK_STATE_WORKING);
        const { artifacts = [] } = task ?? {};
        const known = { id: taskId, contextId, status, artifacts, history: [userMessage] };
        bus.publish(AgentEvent.task({ ...known, metadata: undefined }));
      }
      if ("artifact" in step) {
        const parts = [step.text === undefined ? dataPart(step.data) : part(step.text)];
        const shown = { artifactId: step.artifact, name: step.artifact, description: "", parts };
        bus.publish(
          AgentEvent.artifactUpdate({
            ...{ taskId, contextId, append: step.append ?? false, lastChunk: false },
            artifact: { ...shown, metadata: undefined, extensions: [] },
            metadata: undefined,
          }),
        );
      }
      if ("note" in step) publish(TaskState.TASK_STATE_WORKING, say(step.note));
      if ("message" in step) bus.publish(AgentEvent.message(say(step.message)));
      if ("delayMs" in step) await sleep(step.delayMs);
      if ("ask" in step) {
        publish(step.state ?? TaskState.TASK_STATE_INPUT_REQUIRED, say(step.ask));
        return;
      }
      if ("end" in step) {
        publish(step.end, step.text === undefined ? undefined : say(step.text));
        return;
      }
      if ("message" in step) return;
    }
    publish(TaskState.TASK_STATE_COMPLETED);
  }

  const card = (url: string): AgentCard => ({
    ...{ name: "helper", description: "Helps.", version: "1", provider: undefined },
    supportedInterfaces: versions.map((protocolVersion) => ({
      ...{ url: `${url}/rpc`, protocolBinding: "JSONRPC", tenant: "", protocolVersion },
    })),
    capabilities: { streaming: !noStreams, extensions: [] },
    ...{ securitySchemes: {}, securityRequirements: [], signatures: [] },
    ...{ defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"], skills: [] },
  });
  let handler: DefaultRequestHandler | undefined;

  async function answer(request: IncomingMessage, response: ServerResponse, url: string) {
    requests = [...requests, request.headers];
    const json = (status: number, body: unknown) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    const failure = failures.shift();
    if (failure !== undefined) return json(failure, {});
    if (request.method === "GET") return json(200, AgentCardJson.toJSON(card(url)));
    let text = "";
    for await (const chunk of request) text += chunk;
    handler ??= new DefaultRequestHandler(card(url), store, executor);
    const version = String(request.headers["a2a-version"] ?? "0.3");
    const Transport = version === "0.3" ? LegacyJsonRpcTransportHandler : JsonRpcTransportHandler;
    const context = new ServerCallContext({ requestedVersion: version });
    const result = await new Transport(handler).handle(JSON.parse(text), context);
    if (!(Symbol.asyncIterator in result)) return json(200, result);
    const { id } = JSON.parse(text) as { id: number };
    response.writeHead(200, { "content-type": "text/event-stream" });
    sinks.add(response);
    response.on("close", () => sinks.delete(response));
    try {
      for await (const event of result as AsyncIterable<unknown>)
        response.write(formatSSEEvent(event));
    } catch (error) {
      const mapped = JsonRpcTransportHandler.mapToJSONRPCError(error);
      response.write(
        `event: error\ndata: ${JSON.stringify({ jsonrpc: "2.0", id, error: mapped })}\n\n`,
      );
    }
    response.end();
  }

  const server = createServer((request, response) => {
    const { port } = server.address() as AddressInfo;
    answer(request, response, `http://127.0.0.1:${port}`).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return {
    ...{ card: `http://127.0.0.1:${port}/card.json`, received, cancelled, failures, store, close },
    headers: () => requests,
    cut() {
      for (const sink of sinks) sink.destroy();
    },
    [Symbol.asyncDispose]: close,
  };
}

function statusOf(state: TaskState) {
  return { state, message: undefined, timestamp: new Date().toISOString() };
}

function part(value: string): Part {
  const rest = { metadata: undefined, filename: "", mediaType: "text/plain" };
  return { content: { $case: "text", value }, ...rest };
}

function dataPart(value: unknown): Part {
  const rest = { metadata: undefined, filename: "", mediaType: "application/json" };
  return { content: { $case: "data", value }, ...rest };
}

function textOf({ parts }: Message): string {
  return parts.map(({ content }) => (content?.$case === "text" ? content.value : "")).join("");
}
