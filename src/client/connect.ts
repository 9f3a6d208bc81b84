import { captureCaller, RivuletError } from "../base/error.ts";
import * as is from "../base/options.ts";
import { readArgument, readOptions } from "../base/options.ts";
import type { Approval, ListedSession, Message, SearchMatch } from "../contract/index.ts";
import {
  addBills,
  type Bill,
  type BillOptions,
  billKeys,
  type TaskStatus,
} from "../protocol/index.ts";
import { type ApprovalBody, approvalFrom, find, RemoteAgent } from "./remote-agent.ts";
import { RemoteRun } from "./remote-run.ts";
import { type ConnectOptions, queryOf, Server } from "./request.ts";

/** The sessions of the user on a server. */
export interface RemoteSessions {
  /** Lists sessions, newest first; `limit` defaults to 50, `before` is the last id of the previous page. */
  list(page?: { limit?: number; before?: string }): Promise<readonly ListedSession[]>;
  /** Returns the messages from index `from` on; rejects with `not_found`. */
  read(sessionId: string, part?: { from?: number; limit?: number }): Promise<readonly Message[]>;
  /**
   * Returns the root tasks of a session with what they were asked, oldest first; rejects with `not_found`. Those of a fork
   * begin with the tasks that it continues, as long as their session exists.
   */
  tasks(sessionId: string): Promise<readonly SessionTask[]>;
  /** Finds messages that have all the words, the best first; `limit` defaults to 20. */
  search(text: string, page?: { limit?: number }): Promise<readonly SearchMatch[]>;
  /** Copies the messages up to the end of a root task into a new session, whose id may be chosen as `as`. */
  fork(sessionId: string, from: { taskId: string; as?: string }): Promise<ListedSession>;
  /** Deletes a session and its children's; resolves to false if it does not exist, rejects with `conflict` while it runs. */
  delete(sessionId: string): Promise<boolean>;
  /** Yields lines of JSON: a header, then the messages; throws `not_found`. */
  export(sessionId: string): AsyncIterable<string>;
}

/** A root task of a session. */
export interface SessionTask {
  readonly taskId: string;
  /** The session of the task: another one for the tasks before a fork. */
  readonly sessionId: string;
  readonly agentName: string;
  readonly status: TaskStatus;
  readonly createdAt: number;
  /** The model that was chosen for the task; absent: the agent's own. */
  readonly model?: string;
  /** The messages that the task was started with. */
  readonly input: readonly Message[];
}

/** A server's agents, tasks and sessions. */
export interface RemoteServer {
  /** An agent of the server, by its name. */
  agent(name: string): RemoteAgent;
  /** A run on a task that exists. */
  task(id: string): RemoteRun;
  readonly sessions: RemoteSessions;
  /**
   * Lists what waits for a person in all sessions of the user, newest sessions first; `limit` defaults to 50,
   * `before` is the `next` of the previous page. Answer with `agent(agentName).call(approval.approve(), { sessionId })`.
   */
  approvals(page?: {
    limit?: number;
    before?: string;
  }): Promise<{ readonly approvals: readonly ListedApproval[]; readonly next?: string }>;
  /** Adds up tokens and cost of the user's sessions; for an operator those of all users, or of `user`. */
  usage(query?: UsageQuery): Promise<Bill>;
}

/** Which usage to add up, and how its rows are told apart. */
interface UsageQuery extends Pick<BillOptions, "by" | "from" | "to"> {
  readonly user?: string;
}

/** An approval with the session that waits for it. */
export interface ListedApproval extends Approval {
  readonly sessionId: string;
  readonly title?: string;
  readonly agentName: string;
}

/** Connects to a server. Sends nothing before the first use. */
export function connect(url: string, options: ConnectOptions = {}): RemoteServer {
  const server = new Server(url, options);
  return {
    agent: (name) => new RemoteAgent(server, name),
    task(id) {
      readArgument("id", id, is.required(is.name, '"task_…"'));
      const followed = find(server, { taskId: id }, -1);
      const addCaller = captureCaller();
      return new RemoteRun({ server, agentName: "", until: "root", addCaller, followed });
    },
    sessions: sessionsOn(server),
    async approvals(page = {}) {
      const read = readOptions("approvals()", page, { limit, before: is.name });
      const path = `/v1/approvals${queryOf({ limit: 50, ...read })}`;
      const { approvals, next } = await server.json<ApprovalsBody>("GET", path);
      return {
        approvals: approvals.map(({ session_id: sessionId, agent: agentName, title, ...body }) => ({
          ...approvalFrom(body),
          ...{ sessionId, agentName, ...(title !== undefined && { title }) },
        })),
        ...(next !== undefined && { next }),
      };
    },
    usage: (query = {}) => usageOn(server, query),
  };
}

const usageFields: is.Fields<UsageQuery> = {
  by: is.listOf(is.oneOf(...billKeys)),
  from: is.name,
  to: is.name,
  user: is.name,
};

async function usageOn(server: Server, query: UsageQuery): Promise<Bill> {
  const { by, ...given } = readOptions("usage()", query, usageFields);
  const bills: Bill[] = [];
  for (let before: string | undefined; ; ) {
    const path = `/v1/usage${queryOf({ ...given, by: by?.join(","), before })}`;
    const { next, ...bill } = await server.json<Bill & { next?: string }>("GET", path);
    bills.push(bill);
    if (next === undefined) return addBills(bills);
    before = next;
  }
}

/** A session as the server shows it. */
interface SessionBody {
  readonly session_id: string;
  readonly agent_id?: string;
  readonly title?: string;
  readonly messages: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly status?: TaskStatus;
  readonly forked_from?: { readonly session_id: string; readonly task_id: string };
}
/** A page of approvals as the server shows it. */
interface ApprovalsBody {
  readonly approvals: readonly (ApprovalBody & {
    readonly session_id: string;
    readonly agent: string;
    readonly title?: string;
  })[];
  readonly next?: string;
}
/** A session with its root tasks. */
interface SessionPage {
  readonly session: SessionBody;
  readonly tasks: readonly {
    readonly id: string;
    readonly agent: string;
    readonly status: TaskStatus;
    readonly created_at: number;
    readonly model?: string;
  }[];
  readonly messages: readonly Message[];
}
interface MatchBody extends Omit<SearchMatch, "sessionId"> {
  readonly session_id: string;
}

/** The most messages that the server returns at once. */
const pageSize = 1_000;
const limit = is.integer(0);
const forkFields = { taskId: is.required(is.name, '"task_…"'), as: is.name };

function sessionsOn(server: Server): RemoteSessions {
  const sessions: RemoteSessions = {
    async list(page = {}) {
      const read = readOptions("list()", page, { limit, before: is.name });
      const path = `/v1/sessions${queryOf({ limit: 50, ...read })}`;
      const { sessions } = await server.json<{ sessions: SessionBody[] }>("GET", path);
      return sessions.map(infoOf);
    },
    async read(sessionId, part = {}) {
      const { from = 0, limit: most = Number.POSITIVE_INFINITY } = readOptions("read()", part, {
        from: limit,
        limit,
      });
      const messages: Message[] = [];
      for (;;) {
        const count = Math.min(pageSize, most - messages.length);
        const query = queryOf({ from: from + messages.length, limit: Math.max(1, count) });
        const path = `${pathOf(sessionId)}${query}`;
        const { messages: page } = await server.json<{ messages: Message[] }>("GET", path);
        messages.push(...page.slice(0, count));
        if (page.length < pageSize || messages.length >= most) return messages;
      }
    },
    async search(text, page = {}) {
      readArgument("text", text, is.required(is.name, '"weather"'));
      const read = readOptions("search()", page, { limit });
      const path = `/v1/search${queryOf({ q: text, limit: 20, ...read })}`;
      const { matches } = await server.json<{ matches: MatchBody[] }>("GET", path);
      return matches.map(({ session_id: sessionId, ...match }) => ({ sessionId, ...match }));
    },
    async fork(sessionId, from) {
      const { taskId: task_id, as } = readOptions("fork()", from, forkFields);
      const body = { task_id, ...(as !== undefined && { session_id: as }) };
      const path = `${pathOf(sessionId)}/fork`;
      const { session } = await server.once<{ session: SessionBody }>("POST", path, body);
      return infoOf(session);
    },
    async delete(sessionId) {
      try {
        await server.json("DELETE", pathOf(sessionId));
        return true;
      } catch (error) {
        if (error instanceof RivuletError && error.code === "not_found") return false;
        throw error;
      }
    },
    async *export(sessionId) {
      const { body } = await server.send(`${pathOf(sessionId)}/export`);
      if (body) yield* linesOf(body.pipeThrough(new TextDecoderStream()).getReader());
    },
    async tasks(sessionId) {
      const path = `${pathOf(sessionId)}${queryOf({ limit: 1 })}`;
      const { session, tasks } = await server.json<SessionPage>("GET", path);
      const { session_id: id, forked_from: origin } = session;
      const [messages, before] = await Promise.all([
        sessions.read(sessionId),
        origin ? tasksBefore(sessions, origin.session_id, origin.task_id) : [],
      ]);
      const inputs = Map.groupBy(messages, ({ metadata }) =>
        metadata?.input === true ? metadata.taskId : undefined,
      );
      // The first task of a fork only holds the copied messages.
      const own = tasks.slice(origin ? 1 : 0).map((task): SessionTask => {
        const { id: taskId, agent: agentName, status, created_at: createdAt, model } = task;
        const input = inputs.get(taskId) ?? [];
        const chosen = model === undefined ? {} : { model };
        return { taskId, sessionId: id, agentName, status, createdAt, ...chosen, input };
      });
      return [...before, ...own];
    },
  };
  return sessions;
}

/** The tasks that a fork continues; none if their session was deleted. */
async function tasksBefore(
  sessions: RemoteSessions,
  sessionId: string,
  taskId: string,
): Promise<readonly SessionTask[]> {
  const tasks = await sessions.tasks(sessionId).catch((error: unknown) => {
    if (error instanceof RivuletError && error.code === "not_found") return [];
    throw error;
  });
  return tasks.slice(0, tasks.findIndex((task) => task.taskId === taskId) + 1);
}

function pathOf(sessionId: string): string {
  readArgument("sessionId", sessionId, is.required(is.name, '"my-session"'));
  return `/v1/sessions/${encodeURIComponent(sessionId)}`;
}

function infoOf(body: SessionBody): ListedSession {
  const { session_id, agent_id, created_at, updated_at, forked_from: origin, ...rest } = body;
  return {
    sessionId: session_id,
    ...(agent_id !== undefined && { agentId: agent_id }),
    ...rest,
    createdAt: created_at,
    updatedAt: updated_at,
    ...(origin && { forkedFrom: { sessionId: origin.session_id, taskId: origin.task_id } }),
  };
}

async function* linesOf(reader: ReadableStreamDefaultReader<string>): AsyncGenerator<string, void> {
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) yield `${line}\n`;
    }
    if (rest !== "") yield rest;
  } finally {
    await reader.cancel();
  }
}
