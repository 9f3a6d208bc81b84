import type {
  Message as A2aMessage,
  Task as A2aTask,
  AgentCard,
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  ListTasksResponse,
  SendMessageRequest,
  StreamResponse,
  SubscribeToTaskRequest,
} from "@a2a-js/sdk";
import { AgentCard as AgentCardJson } from "@a2a-js/sdk";
import { isV1JsonRpcMethod } from "@a2a-js/sdk/compat/v0_3";
import {
  LegacyJsonRpcTransportHandler,
  LegacyRestTransportHandler,
} from "@a2a-js/sdk/compat/v0_3/server";
import {
  A2AError,
  PushNotificationNotSupportedError,
  RequestMalformedError,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
} from "@a2a-js/sdk/errors";
import {
  type A2ARequestHandler,
  JsonRpcTransportHandler,
  ServerCallContext,
  validateVersion,
} from "@a2a-js/sdk/server";
import { postCancel, runFields } from "../../agent/index.ts";
import { type RivuletError, rivuletErrorOf } from "../../base/error.ts";
import type { Agent, Run } from "../../contract/index.ts";
import { isTerminal, taskOf } from "../../protocol/index.ts";
import {
  beginRun,
  type Call,
  findTask,
  ownedBy,
  publicError,
  statusOf,
} from "../../server/index.ts";
import { eventsUntil, Waiting } from "../event-stream.ts";
import { answersIn, blocksOf, isLateAnswer, taskIdFor } from "./message.ts";
import { A2aUpdates, a2aTask, historyOf, type Standing, waitingBelow } from "./task.ts";

const versionHeader = "a2a-version";
const [current, legacy] = ["1.0", "0.3"];
const maxHistory = 1_000;
/** The methods that answer at once; the others wait for a task. */
const quickMethods: ReadonlySet<unknown> = new Set(["GetTask", "ListTasks", "tasks/get"]);

/** The card of an agent whose endpoint is `url`. */
function cardOf({ name, description = `The agent ${name}.` }: Agent, url: string): AgentCard {
  const endpoint = { url, protocolBinding: "JSONRPC", tenant: "" };
  const skill = { id: name, name, description, tags: ["agent"], examples: [] };
  const bearer = { description: "", scheme: "Bearer", bearerFormat: "" };
  return {
    ...{ name, description, version: "1", provider: undefined, signatures: [] },
    supportedInterfaces: [current, legacy].map((protocolVersion) => ({
      ...endpoint,
      protocolVersion,
    })),
    capabilities: {
      ...{ streaming: true, pushNotifications: false, extendedAgentCard: false },
      extensions: [],
    },
    securitySchemes: {
      bearer: { scheme: { $case: "httpAuthSecurityScheme", value: bearer } },
    },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
    defaultInputModes: ["text/plain", "application/json", "image/*"],
    defaultOutputModes: ["text/plain", "application/json"],
    skills: [{ ...skill, inputModes: [], outputModes: [], securityRequirements: [] }],
  };
}

/** Answers with the card; a client that does not ask for 1.0 gets the form of 0.3, with the addresses of both. */
export async function cardResponse(call: Call, agent: Agent, url: string): Promise<Response> {
  const card = cardOf(agent, url);
  const json = AgentCardJson.toJSON(card) as Record<string, unknown>;
  const headers = { ...call.headers, vary: `origin, ${versionHeader}` };
  if (call.request.headers.get(versionHeader) === current) return Response.json(json, { headers });
  const old = new LegacyRestTransportHandler({
    getAuthenticatedExtendedAgentCard: async () => card,
  } as unknown as A2ARequestHandler);
  const compatible = await old.getAuthenticatedExtendedAgentCard(new ServerCallContext());
  const { supportedInterfaces } = json;
  return Response.json({ ...compatible, supportedInterfaces }, { headers });
}

/** Answers a JSON-RPC request; without a version header, the name of the method tells the version. */
export async function answerRpc(call: Call, agent: Agent, url: string): Promise<Response> {
  const { request, body, headers } = call;
  const named = request.headers.get(versionHeader);
  const version = named ?? (isV1JsonRpcMethod(body.method) ? current : legacy);
  const isLegacy = version === legacy;
  const toError = isLegacy
    ? LegacyJsonRpcTransportHandler.mapToLegacyJSONRPCError
    : JsonRpcTransportHandler.mapToJSONRPCError;
  const id = (body.id ?? null) as string | number | null;
  const refusal = (error: unknown) =>
    Response.json({ jsonrpc: "2.0", id, error: toError(error) }, { headers });
  const handler = new AgentHandler(call, agent, cardOf(agent, url));
  const context = new ServerCallContext({ requestedVersion: version });
  try {
    validateVersion(version, await handler.getAgentCard(), "JSONRPC");
    if (hasNullEntry(body.params))
      throw new RequestMalformedError("`params` has null in an array.");
  } catch (error) {
    return refusal(error);
  }
  if (!quickMethods.has(body.method)) void handler.waiting; // throws if the user has too many streams
  const Transport = isLegacy ? LegacyJsonRpcTransportHandler : JsonRpcTransportHandler;
  const answer = await new Transport(handler).handle({ ...body }, context);
  if (!isStream(answer)) {
    handler.finish();
    return Response.json(answer, { headers });
  }
  const iterator = answer[Symbol.asyncIterator]();
  const first = await iterator.next().catch((error: unknown) => ({ error }));
  if ("error" in first) {
    handler.finish();
    return refusal(first.error);
  }
  return handler.waiting.stream(framesOf(first, iterator));
}

/** Whether an array below a value has null, which the package cannot read and would call a failure of the server. */
function hasNullEntry(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.values(value).some(
    (entry) => (entry === null && Array.isArray(value)) || hasNullEntry(entry),
  );
}

function isStream(answer: object): answer is AsyncGenerator<unknown, void, undefined> {
  return Symbol.asyncIterator in answer;
}

async function* framesOf(
  first: IteratorResult<unknown>,
  rest: AsyncIterator<unknown>,
): AsyncGenerator<string, void, undefined> {
  try {
    for (let next = first; !next.done; next = await rest.next())
      yield `data: ${JSON.stringify(next.value)}\n\n`;
  } finally {
    await rest.return?.();
  }
}

/** One request to one agent. The user is the caller's, whatever the request says. */
class AgentHandler implements A2ARequestHandler {
  readonly #call: Call;
  readonly #agent: Agent;
  readonly #card: AgentCard;
  #waiting: Waiting | undefined;

  constructor(call: Call, agent: Agent, card: AgentCard) {
    this.#call = call;
    this.#agent = agent;
    this.#card = card;
  }

  /** What stops this request; from here on it counts as an open stream of the user. */
  get waiting(): Waiting {
    this.#waiting ??= new Waiting(this.#call);
    return this.#waiting;
  }

  /** The request is answered, not with a stream. */
  finish(): void {
    this.#waiting?.end();
  }

  async getAgentCard(): Promise<AgentCard> {
    return this.#card;
  }

  async getAuthenticatedExtendedAgentCard(): Promise<AgentCard> {
    throw new UnsupportedOperationError("The agent has no extended card.");
  }

  async sendMessage(params: SendMessageRequest): Promise<A2aTask> {
    return translated(async () => {
      const { taskId, run } = await this.#send(params);
      const { returnImmediately, historyLength } = params.configuration ?? {};
      if (!returnImmediately) await this.#untilRest(run);
      return this.#show(taskId, historyLength);
    });
  }

  async *sendMessageStream(
    params: SendMessageRequest,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const { taskId, run } = await translated(() => this.#send(params));
    yield* this.#follow(taskId, run, params.configuration?.historyLength);
  }

  async *resubscribe(
    params: SubscribeToTaskRequest,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const { record } = await translated(() => this.#find(params.id));
    if (isTerminal(record.status))
      throw new UnsupportedOperationError(`Task ${record.taskId} has ended as ${record.status}.`);
    yield* this.#follow(record.taskId, this.#attach(record.taskId), undefined);
  }

  async getTask({ id, historyLength }: GetTaskRequest): Promise<A2aTask> {
    return translated(async () => {
      const { record } = await this.#find(id);
      return this.#show(record.taskId, historyLength);
    });
  }

  async listTasks(params: ListTasksRequest): Promise<ListTasksResponse> {
    return translated(async () => {
      const { contextId, pageSize = 50, historyLength, includeArtifacts, status } = params;
      if (contextId === "") throw new RequestMalformedError("contextId is required.");
      const { store } = this.#call.services;
      const sessionId = await this.#call.names.stored("session", contextId);
      const records = await store.tasks({ sessionId, newestFirst: true });
      const own = records.filter((record) => record.depth === 0 && this.#isOwn(record));
      const shown = await Promise.all(
        own.map(({ taskId }) => this.#show(taskId, historyLength ?? 0)),
      );
      const matching = shown.filter((task) => !status || task.status?.state === status);
      const tasks = matching
        .slice(0, Math.min(Math.max(1, pageSize), 100))
        .map((task) => (includeArtifacts ? task : { ...task, artifacts: [] }));
      return { tasks, nextPageToken: "", pageSize: tasks.length, totalSize: matching.length };
    });
  }

  async cancelTask({ id: given }: CancelTaskRequest): Promise<A2aTask> {
    return translated(async () => {
      const { record } = await this.#find(given);
      const { taskId: id } = record;
      if (isTerminal(record.status))
        throw new TaskNotCancelableError(`Task ${id} has ended as ${record.status}.`);
      const reason = "cancelled";
      await postCancel(this.#call.services.store, id, reason);
      const run = this.#attach(id);
      this.#call.services.background(run.cancel(reason));
      await this.#untilRest(run);
      return this.#show(id, 0);
    });
  }

  createTaskPushNotificationConfig = noPush;
  getTaskPushNotificationConfig = noPush;
  listTaskPushNotificationConfigs = noPush;
  deleteTaskPushNotificationConfig = noPush;

  /** Starts a task, answers one that waits, or steers one that runs. */
  async #send(params: SendMessageRequest): Promise<{ taskId: string; run: Run<unknown> }> {
    const { message, configuration } = params;
    if (!message?.messageId) throw new RequestMalformedError("message.messageId is required.");
    if (configuration?.taskPushNotificationConfig) throw new PushNotificationNotSupportedError();
    return message.taskId === "" ? this.#start(message) : this.#continue(message);
  }

  async #start(message: A2aMessage) {
    const { services, caller, names } = this.#call;
    const { contextId } = message;
    if (contextId !== "" && !runFields.sessionId.fits(contextId))
      throw new RequestMalformedError(`contextId must be ${runFields.sessionId.expected}.`);
    const sessionId = await names.stored("session", contextId);
    const minted = taskIdFor(message, this.#agent.name, caller.userId);
    const taskId = await names.stored("task", minted);
    const input = { role: "user" as const, content: blocksOf(message) };
    const options = { taskId, ...(sessionId !== "" && { sessionId }) };
    const isKnown = (await services.store.task(taskId)) !== undefined;
    const continued = isKnown ? taskId : undefined;
    return { taskId, run: await beginRun(this.#call, this.#agent, input, options, continued) };
  }

  async #continue(message: A2aMessage) {
    const { services, names } = this.#call;
    const { record } = await this.#find(message.taskId);
    const { taskId } = record;
    const contextId = await names.stored("session", message.contextId);
    if (contextId !== "" && contextId !== record.sessionId)
      throw new RequestMalformedError(`contextId is not that of task ${taskId}.`);
    if (isTerminal(record.status))
      throw new UnsupportedOperationError(
        `Task ${taskId} has ended as ${record.status}. Send the message without taskId.`,
      );
    const { tree } = await services.trees.read(taskId);
    const isWaiting = taskOf(tree, taskId)?.status === "suspended";
    if (isWaiting && waitingBelow(tree, taskId).length > 0) {
      const answers = answersIn(message, tree, taskId);
      const options = { sessionId: record.sessionId };
      return { taskId, run: await beginRun(this.#call, this.#agent, answers, options, taskId) };
    }
    const run = this.#attach(taskId);
    // A client may repeat an answer whose response it has lost.
    if (!isLateAnswer(message)) {
      const content = blocksOf(message);
      await run.steer({ id: services.ids.next("msg"), role: "user", content });
    }
    return { taskId, run };
  }

  /** A root task of this agent that the caller may see. */
  async #find(id: string) {
    if (id.trim() === "") throw new RequestMalformedError("The id of the task is required.");
    const stored = await this.#call.names.stored("task", id);
    const found = await findTask({ ...this.#call, params: { id: stored } });
    if (found.record.depth === 0 && this.#isOwn(found.record)) return found;
    throw new TaskNotFoundError(`There is no task ${id.slice(0, 128)}.`);
  }

  #isOwn(record: { readonly userId?: string; readonly agentName: string }): boolean {
    const { userId } = this.#call.caller;
    return record.userId === userId && record.agentName === this.#agent.name;
  }

  #attach(taskId: string): Run<unknown> {
    const options = { ...ownedBy(this.#call.caller), until: "root" } as const;
    const run = this.#agent.attach?.({ taskId }, options);
    if (run === undefined) throw new UnsupportedOperationError("The agent cannot be followed.");
    this.#call.services.background(run.result());
    return run;
  }

  async #untilRest(run: Run<unknown>): Promise<void> {
    const { signal } = this.waiting;
    const { promise, reject } = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    const rested = run.result().then(
      () => {},
      () => {}, // the task says why
    );
    await Promise.race([rested, promise]);
  }

  /** A snapshot of the task, then its updates until it rests. */
  async *#follow(
    taskId: string,
    run: Run<unknown>,
    historyLength: number | undefined,
  ): AsyncGenerator<StreamResponse, void, undefined> {
    const { signal } = this.waiting;
    const history = await this.#history(taskId, historyLength);
    const standing = await this.#stand(taskId);
    // Read the tree before the next `await`: another request may fold it on.
    const { safeCursor: after } = standing.tree;
    const value = a2aTask(standing, history);
    const updates = new A2aUpdates(standing, () => this.#stand(taskId));
    yield { payload: { $case: "task", value } };
    const events = run.events({ after, until: "root" });
    for await (const event of eventsUntil(events, signal)) yield* await updates.translate(event);
  }

  async #stand(taskId: string): Promise<Standing> {
    const { services } = this.#call;
    const record = await services.store.task(taskId);
    if (record === undefined) throw new TaskNotFoundError(`There is no task ${taskId}.`);
    const [endpoint] = this.#card.supportedInterfaces;
    const base = endpoint?.url.replace(/\/a2a\/[^/]*$/, "") ?? "";
    const { tree } = await services.trees.read(taskId);
    return { record, tree, base };
  }

  async #show(taskId: string, historyLength: number | undefined): Promise<A2aTask> {
    const history = await this.#history(taskId, historyLength);
    return a2aTask(await this.#stand(taskId), history);
  }

  async #history(taskId: string, length = maxHistory): Promise<readonly A2aMessage[]> {
    const { store } = this.#call.services;
    const record = length > 0 ? await store.task(taskId) : undefined;
    if (record === undefined) return [];
    return historyOf(record, await store.session(record.sessionId)).slice(-length);
  }
}

async function noPush(): Promise<never> {
  throw new PushNotificationNotSupportedError();
}

/** Runs work and throws its errors in the words of A2A. */
async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof A2AError ? error : a2aError(rivuletErrorOf(error));
  }
}

function a2aError(error: RivuletError): Error {
  const { code, message, hint } = publicError(error);
  const text = hint === undefined ? message : `${message} ${hint}`;
  if (code === "not_found") return new TaskNotFoundError(text);
  const status = statusOf(error);
  if (status === 409) return new UnsupportedOperationError(text);
  return status === 400 || status === 413 ? new RequestMalformedError(text) : new A2AError(text);
}
