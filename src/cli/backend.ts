import { connect } from "../client/index.ts";
import type { Agent, Message, SessionInfo } from "../contract/index.ts";
import { HarnessAgent, sessionsOf } from "../harness/index.ts";
import { type Project, withModel } from "./config.ts";
import type { Supervisor } from "./supervisor.ts";

/** The agents that a terminal talks to, in this process or on a server. */
export interface Backend {
  readonly agent: Agent;
  readonly sessions: {
    list(page?: { limit?: number }): Promise<readonly SessionInfo[]>;
    read(sessionId: string, part?: { from?: number; limit?: number }): Promise<readonly Message[]>;
  };
  /** Changes the model of the next messages; absent where it cannot change. */
  setModel?(model: string): Promise<void>;
  /** Kills the server process; absent without one. */
  kill?(): Promise<void>;
  close(): Promise<void>;
}

/** The agents of a project, in this process. */
export function localBackend({ store }: Project, first: Agent): Backend {
  let agent = first;
  const used = [first];
  return {
    get agent() {
      return agent;
    },
    sessions: sessionsOf(store, { allUsers: true }),
    async setModel(model) {
      agent = await withModel(agent, model);
      used.push(agent);
    },
    async close() {
      for (const each of used) if (each instanceof HarnessAgent) await each.close();
      await store.close();
    },
  };
}

/** The agent of a demo server, which may be killed at any time. */
export function demoBackend(supervisor: Supervisor): Backend {
  const server = connect(supervisor.url, { token: supervisor.token });
  return {
    agent: server.agent("lead"),
    sessions: server.sessions,
    kill: () => supervisor.kill(),
    close: () => supervisor.close(),
  };
}
