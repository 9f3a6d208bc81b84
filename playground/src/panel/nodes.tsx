import type { ReactNode } from "react";
import { api, type NodeBody, server, type WaitingBody } from "../state/api.ts";
import { duration } from "../state/format.ts";
import { refreshNodes, useNodes } from "../state/nodes.ts";
import { addressOf, useSessions } from "../state/sessions.ts";
import { showError } from "../state/ui.ts";
import { useWaitingOfAll } from "../state/waiting.ts";

/** The processes on the store, what waits for one or for a person, and what was judged poison. */
export function Nodes() {
  const body = useNodes();
  const asked = useWaitingOfAll() ?? [];
  if (body === undefined) return <p className="none">Loading …</p>;
  const { nodes, waiting, poisoned } = body;
  return (
    <div className="scroll">
      {nodes.map((node) => (
        <NodeRow key={node.id} node={node} />
      ))}
      {nodes.length === 0 && <p className="none">No process has been seen for an hour.</p>}
      {waiting.length > 0 && <h2>Waiting for a process</h2>}
      {waiting.map((session) => (
        <div className="offer" key={session.session_id}>
          <b>
            <SessionLink id={session.session_id} />
          </b>
          <span>{waitOf(session)}</span>
          {(session.version || session.place) && (
            <Action
              name={session.session_id}
              run={() => api.move(session.session_id, { place: "", version: "" })}
            >
              Move to any process
            </Action>
          )}
        </div>
      ))}
      {asked.length > 0 && <h2>Waiting for a person</h2>}
      {asked.map(({ approval_id, session_id, path, agent, user, call }) => (
        <div className="offer" key={approval_id}>
          <b>
            <SessionLink id={session_id} />
          </b>
          <span>
            {path?.split("/").at(-1) ?? agent}
            {call.name !== "" && `: ${call.name}`}
            {user !== undefined && `, for ${user}`}
          </span>
        </div>
      ))}
      {poisoned.length > 0 && <h2>Judged poison</h2>}
      {poisoned.map(({ session_id, task_id, message }) => (
        <div className="offer" key={task_id}>
          <b>
            <SessionLink id={session_id} />
          </b>
          <span>{message}</span>
          <Action name={session_id} run={() => server.task(task_id).retry().task}>
            Retry
          </Action>
        </div>
      ))}
    </div>
  );
}

function NodeRow({ node }: { readonly node: NodeBody }) {
  const { name, is_live, silent_ms, agents, places, sessions } = node;
  const offered = agents.map(({ agent_id, version }) =>
    version === undefined ? agent_id : `${agent_id} ${version}`,
  );
  const state = is_live ? "live" : `silent for ${duration(silent_ms)}`;
  const what = offered.length > 0 ? `runs ${offered.join(", ")}` : "runs nothing";
  return (
    <section className="offer" aria-label={name}>
      <b>{name}</b>
      <span>
        {state}, {what}
      </span>
      {places.length > 0 && <span>Has the files of {places.join(", ")}</span>}
      {is_live && sessions.length > 0 && (
        <span className="names">
          {sessions.map((id) => (
            <SessionLink key={id} id={id} />
          ))}
        </span>
      )}
    </section>
  );
}

/** A session by its title; one of another user has no page here. */
function SessionLink({ id }: { readonly id: string }) {
  const session = useSessions(({ list }) => list.find(({ sessionId }) => sessionId === id));
  if (session === undefined) return <code>{id}</code>;
  return <a href={addressOf(id)}>{session.title ?? id}</a>;
}

const reasons: Readonly<Record<string, string>> = {
  unknown_agent: "no process has this agent",
  unknown_version: "no process has this version",
  unknown_place: "no process has its files",
  user_limit: "its user has as many sessions at work as allowed",
};

function waitOf({ agent = "", version, place, reason = "" }: WaitingBody): string {
  const of = [agent, version, place && `at ${place}`].filter(Boolean).join(" ");
  return `${of}: ${reasons[reason] ?? "a process takes it soon"}`;
}

interface ActionProps {
  readonly name: string;
  readonly run: () => Promise<unknown>;
  readonly children: ReactNode;
}

function Action({ name, run, children }: ActionProps) {
  return (
    <span>
      <button
        type="button"
        className="btn sm"
        aria-label={`${String(children)}: ${name}`}
        onClick={() => void run().then(refreshNodes, showError)}
      >
        {children}
      </button>
    </span>
  );
}
