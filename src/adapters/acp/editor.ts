import { realpathSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import {
  type AgentContext,
  type AgentRequestHandlersByMethod,
  agent as agentApp,
  type ClientCapabilities,
  methods,
  ndJsonStream,
  PROTOCOL_VERSION,
  RequestError,
  type SessionUpdate,
} from "@agentclientprotocol/sdk";
import { rivuletErrorOf } from "../../base/error.ts";
import { createIds } from "../../base/id.ts";
import type { Agent, Input, InputMessage, Store, TaskRecord } from "../../contract/index.ts";
import { statusOf, Trees } from "../../server/index.ts";
import { blocksOf } from "./input.ts";
import { type AcpSession, type Editor, isOpen, Turn } from "./turn.ts";
import { AcpUpdates, messageUpdates } from "./updates.ts";

/** What an editor gets. */
export interface AcpOptions {
  /** The agents; new sessions are with the first one. */
  readonly agents: readonly Agent[];
  readonly store: Store;
  /** The user whose sessions the editor sees; without it, those without a user. */
  readonly userId?: string;
  /** The folder that the agents work in, which every session must have as its `cwd`. */
  readonly cwd: string;
  readonly version: string;
  /** The context window of the model in tokens; defaults to 128 000. */
  readonly contextWindow?: number;
  /** Writes a line for the log of the editor. */
  readonly note: (line: string) => void;
}

/** The bytes of a connection. */
export interface AcpStreams {
  readonly input: ReadableStream<Uint8Array>;
  readonly output: WritableStream<Uint8Array>;
}

type Handlers = AgentRequestHandlersByMethod;
type Params<Method extends keyof Handlers> = Parameters<Handlers[Method]>[0]["params"];

/** Where an editor wants a session to work. */
type Place = Omit<Params<"session/resume">, "sessionId">;

const pageSize = 50;

/** Serves agents to an editor until the connection closes. Turns that run then are left as they are. */
export async function serveAcp(options: AcpOptions, streams: AcpStreams): Promise<void> {
  const connection = new Connection(options);
  const app = agentApp({ name: "rivulet" });
  const { agent: names } = methods;
  app.onRequest(names.initialize, ({ params }) => connection.initialize(params));
  app.onRequest(names.session.new, ({ params }) => connection.open(params));
  app.onRequest(names.session.load, ({ params, client }) =>
    connection.load(params, client, true).catch(failRequest),
  );
  app.onRequest(names.session.resume, ({ params, client }) =>
    connection.load(params, client, false).catch(failRequest),
  );
  app.onRequest(names.session.list, ({ params }) => connection.list(params).catch(failRequest));
  app.onRequest(names.session.prompt, ({ params, client }) =>
    connection.prompt(params, client).catch(failRequest),
  );
  app.onRequest(names.session.close, ({ params }) => connection.close(params).catch(failRequest));
  app.onNotification(names.session.cancel, ({ params }) => connection.cancel(params));
  await app.connect(ndJsonStream(streams.output, streams.input)).closed;
}

/** The sessions of one editor. */
class Connection {
  readonly #options: AcpOptions;
  readonly #trees: Trees;
  readonly #ids = createIds();
  readonly #sessions = new Map<string, AcpSession>();
  #capabilities: ClientCapabilities | undefined;

  constructor(options: AcpOptions) {
    this.#options = options;
    this.#trees = new Trees(options.store);
  }

  initialize({ clientCapabilities = {} }: Params<"initialize">) {
    this.#capabilities = clientCapabilities;
    return {
      protocolVersion: PROTOCOL_VERSION,
      agentInfo: { name: "rivulet", title: "Rivulet", version: this.#options.version },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: true, embeddedContext: true },
        sessionCapabilities: { list: {}, resume: {}, close: {} },
      },
      authMethods: [],
    };
  }

  open(params: Params<"session/new">) {
    this.#checkPlace(params);
    const [agent] = this.#options.agents;
    const sessionId = this.#ids.next("sess");
    this.#keep(sessionId, agent as Agent);
    return { sessionId };
  }

  async load(
    params: Params<"session/load"> | Params<"session/resume">,
    client: AgentContext,
    replays: boolean,
  ) {
    this.#checkPlace(params);
    const { sessionId } = params;
    const records = await this.#rootsOf(sessionId);
    const last = records.findLast(({ observes }) => !observes);
    const name = last?.agentName;
    const agent = this.#options.agents.find((one) => one.name === name);
    if (last !== undefined && agent === undefined)
      throw refused(
        `The session ${sessionId} is with the agent ${name}, which the config does not have.`,
      );
    const session = this.#keep(sessionId, agent ?? (this.#options.agents[0] as Agent));
    const editor = this.#editor(client);
    const send = (updates: readonly SessionUpdate[]) =>
      replays ? sendAll(client, sessionId, updates) : undefined;
    let updates = new AcpUpdates(editor.contextWindow);
    const messages = await this.#options.store.session(sessionId);
    for (const record of records) {
      updates = new AcpUpdates(editor.contextWindow);
      const own = messages.filter(({ metadata }) => metadata?.taskId === record.taskId);
      const { tree } = await this.#trees.read(record.taskId);
      if (tree.tasks[record.taskId] === undefined) await send(own.flatMap(messageUpdates));
      else {
        const asked = own.filter(({ role, metadata }) => role === "user" && metadata?.input);
        const input = asked.length > 0 ? asked : (record.input ?? []);
        await send([...input.flatMap(messageUpdates), ...updates.replay(tree, record.taskId)]);
      }
    }
    // The answer comes first: an editor may drop updates of a session that it does not have yet.
    if (last && isOpen(last))
      setImmediate(() => {
        session.turn ??= new Turn(editor, session, undefined, updates);
      });
    return {};
  }

  async list({ cwd, cursor }: Params<"session/list">) {
    if (typeof cwd === "string" && !isSameFolder(cwd, this.#options.cwd)) return { sessions: [] };
    const before = typeof cursor === "string" ? { before: cursor } : {};
    const { store, userId = null } = this.#options;
    const found = await store.sessions({ userId, limit: pageSize, ...before });
    const last = found.at(-1);
    return {
      sessions: found.map(({ sessionId, title, updatedAt }) => ({
        ...{ sessionId, cwd: this.#options.cwd, updatedAt: new Date(updatedAt).toISOString() },
        ...(title !== undefined && { title }),
      })),
      ...(last && found.length === pageSize && { nextCursor: last.sessionId }),
    };
  }

  async prompt({ sessionId, prompt }: Params<"session/prompt">, client: AgentContext) {
    const session = this.#find(sessionId);
    if (session.turn?.isAtWork)
      throw RequestError.invalidRequest(
        { sessionId },
        "The session has a prompt that is not answered. Cancel it first.",
      );
    if (session.turn?.isCancelled) await session.turn.stopped.catch(() => {});
    const input = await this.#inputOf(session, prompt);
    const turn = new Turn(this.#editor(client), session, input);
    session.turn = turn;
    return { stopReason: await turn.stopped };
  }

  async #inputOf(session: AcpSession, prompt: Params<"session/prompt">["prompt"]): Promise<Input> {
    const { agent, sessionId, userId } = session;
    const content = blocksOf(prompt);
    if (content.length === 0) throw refused("`prompt` is empty.");
    const message: InputMessage = { role: "user", content };
    const [last] = await this.#options.store.tasks({ sessionId, newestFirst: true, limit: 1 });
    if (last?.status !== "suspended") return message;
    const approvals = await agent.approvals({ sessionId, ...(userId !== undefined && { userId }) });
    const questions = approvals.filter(({ kind }) => kind === "question");
    return questions.length > 0 ? questions.map((asked) => asked.answer(content)) : message;
  }

  cancel({ sessionId }: { readonly sessionId: string }): void {
    this.#sessions.get(sessionId)?.turn?.cancel();
  }

  async close({ sessionId }: Params<"session/close">) {
    const { turn } = this.#find(sessionId);
    this.#sessions.delete(sessionId);
    turn?.cancel();
    await turn?.ended;
    return {};
  }

  #editor(client: AgentContext): Editor {
    const { contextWindow = 128_000 } = this.#options;
    return { client, capabilities: this.#capabilities ?? {}, contextWindow };
  }

  #keep(sessionId: string, agent: Agent): AcpSession {
    const { userId } = this.#options;
    const session = { sessionId, agent, ...(userId !== undefined && { userId }) };
    this.#sessions.set(sessionId, session);
    return session;
  }

  #find(sessionId: string): AcpSession {
    this.#checkInitialized();
    const session = this.#sessions.get(sessionId);
    if (session === undefined) throw RequestError.sessionNotFound(sessionId);
    return session;
  }

  /** The root tasks of a session of the user, the first first; none if this connection has just made it. */
  async #rootsOf(sessionId: string): Promise<readonly TaskRecord[]> {
    const { store, userId = null } = this.#options;
    const [info] = await store.sessions({ userId, sessionId, limit: 1 });
    const records = info === undefined ? [] : await store.tasks({ sessionId });
    const roots = records.filter((record) => record.taskId === record.rootTaskId);
    if (roots.length === 0 && !this.#sessions.has(sessionId))
      throw RequestError.sessionNotFound(sessionId);
    return roots.filter(({ compacts }) => !compacts);
  }

  #checkInitialized(): void {
    if (this.#capabilities === undefined)
      throw RequestError.invalidRequest({}, "The first request must be `initialize`.");
  }

  #checkPlace({ cwd, additionalDirectories = [], mcpServers = [] }: Place): void {
    this.#checkInitialized();
    const { cwd: own, note } = this.#options;
    if (!isAbsolute(cwd)) throw refused(`\`cwd\` must be an absolute path, got ${shown(cwd)}.`);
    if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory())
      throw refused(`\`cwd\` ${shown(cwd)} is not a folder.`);
    if (!isSameFolder(cwd, own))
      throw refused(
        `\`cwd\` is ${shown(cwd)}, and the agents work in ${shown(own)}. Start \`rivulet acp\` in the folder that the editor has open.`,
      );
    if (additionalDirectories.length > 0)
      throw refused("`additionalDirectories` are not supported: agents work in one folder.");
    for (const { name } of mcpServers)
      note(`The MCP server ${shown(name)} of the editor is not used; add it to the agent.`);
  }
}

async function sendAll(
  client: AgentContext,
  sessionId: string,
  updates: readonly SessionUpdate[],
): Promise<void> {
  for (const update of updates)
    await client.notify(methods.client.session.update, { sessionId, update });
}

function isSameFolder(one: string, other: string): boolean {
  try {
    return realpathSync(one) === realpathSync(other);
  } catch {
    return false;
  }
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 300));
}

function refused(message: string): RequestError {
  return RequestError.invalidParams({}, message);
}

/** Fails a request with what the user can do about it. */
function failRequest(error: unknown): never {
  if (error instanceof RequestError) throw error;
  const known = rivuletErrorOf(error);
  const { code, message, hint } = known;
  const number = { 400: -32_602, 404: -32_002 }[statusOf(known)] ?? -32_603;
  throw new RequestError(number, message, { code, ...(hint !== undefined && { hint }) });
}
