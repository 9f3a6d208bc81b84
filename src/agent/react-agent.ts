import type {
  Agent,
  AgentEvent,
  Approval,
  AttachOptions,
  AttachTarget,
  Input,
  OutputOf,
  Run,
  RunOptions,
  StandardSchema,
  StreamOptions,
} from "../protocol/agent.ts";
import type { Reply } from "../protocol/message.ts";
import { checkBudget } from "./base/budget.ts";
import {
  type AgentSettings,
  type ReActAgentOptions,
  settingsBehind,
  settingsKey,
  settingsOf,
} from "./loop/settings.ts";
import { waitingTasks } from "./loop/waiting.ts";
import { agentEventsOf } from "./stream/agent-events.ts";
import { attach, openDoor } from "./stream/door.ts";
import { TaskHandle } from "./stream/run.ts";

/**
 * An agent that reasons and acts in turns. The object holds settings only and is frozen; everything that changes lives in
 * the store and the run, so any number of sessions can use it at once.
 */
export class ReActAgent implements Agent {
  readonly name: string;
  readonly description?: string;
  /** @internal */
  readonly [settingsKey]: AgentSettings;

  constructor(options: ReActAgentOptions) {
    const settings = changedSettings(options) ?? settingsOf(options);
    this[settingsKey] = settings;
    this.name = settings.name;
    if (settings.description !== undefined) this.description = settings.description;
    Object.freeze(this);
  }

  /** Starts a task, or continues the session's unfinished one; iterate the run for task events. */
  run<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: RunOptions<S> = {},
  ): Run<OutputOf<S>> {
    return this.#start(input, options);
  }

  /** Runs the same way and yields agent events: one per chunk and message, each with the descendant it came from. */
  stream<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: StreamOptions<S> = {},
  ): AsyncIterable<AgentEvent> {
    return agentEventsOf(this.#start(input, options), this[settingsKey], options);
  }

  /** Runs the same way and resolves to the reply. */
  call<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: RunOptions<S> = {},
  ): Promise<Reply<OutputOf<S>>> {
    return this.run(input, options).result();
  }

  /** Follows a task that exists, in whatever process it runs; starts no task. */
  attach(target: AttachTarget, options: AttachOptions = {}): Run<unknown> {
    const settings = this[settingsKey];
    return new TaskHandle(attach(settings, target, options), settings, options.until ?? "root");
  }

  #start<S extends StandardSchema | undefined>(input: Input, options: RunOptions<S>) {
    const settings = this[settingsKey];
    const door = openDoor(settings, input, options);
    return new TaskHandle<OutputOf<S>>(door, settings, options.until ?? "root");
  }

  /** Lists the approvals that wait in a session, at any depth. */
  async approvals({ sessionId }: { sessionId: string }): Promise<readonly Approval[]> {
    const waiting = await waitingTasks(this[settingsKey].store, { conversation: sessionId });
    return waiting.flatMap(({ approvals }) => approvals);
  }
}

/** The same agent with some settings changed; an agent that is not of this package stays as it is. */
export function agentWith(agent: Agent, changes: Partial<AgentSettings>): Agent {
  const settings = settingsBehind(agent);
  if (settings === undefined) return agent;
  checkBudget(changes.budget, settings.price !== undefined);
  const changed = Object.freeze({ ...settings, ...changes });
  return new ReActAgent({ [settingsKey]: changed } as unknown as ReActAgentOptions);
}

function changedSettings(options: ReActAgentOptions): AgentSettings | undefined {
  return (options as { readonly [settingsKey]?: AgentSettings } | undefined)?.[settingsKey];
}
