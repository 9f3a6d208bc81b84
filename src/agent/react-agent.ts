import { withCallerStack } from "../base/error.ts";
import { type Fields, readOptions } from "../base/options.ts";
import {
  type Agent,
  type AgentEvent,
  type Approval,
  type AttachOptions,
  type AttachTarget,
  agentEventsOf,
  approvalsFields,
  attachFields,
  type Input,
  type InputMessage,
  type ObserveOptions,
  type OutputOf,
  type Reply,
  type Run,
  type RunOptions,
  type StandardSchema,
  type StreamOptions,
  targetFields,
} from "../contract/index.ts";
import { checkBudget } from "./base/budget.ts";
import { linkExecutor } from "./drive/executor.ts";
import {
  type AgentSettings,
  observeFields,
  type ReActAgentOptions,
  runFields,
  settingsBehind,
  settingsKey,
  settingsOf,
  streamFields,
} from "./loop/settings.ts";
import { enter, findTask, openApprovals } from "./stream/door.ts";
import { TaskHandle } from "./stream/run.ts";

linkExecutor.load = () => import("./remote/link-executor.ts");

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
    const settings = withCallerStack(new.target, () => settingsOf(options));
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
    return start(this, input, readOptions("run()", options, runFields));
  }

  /** Runs the same way and yields agent events: one per chunk and message, each with the descendant it came from. */
  stream<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: StreamOptions<S> = {},
  ): AsyncIterable<AgentEvent> {
    const read = readOptions("stream()", options, streamFields);
    return agentEventsOf(start(this, input, read), this[settingsKey], read);
  }

  /** Runs the same way and resolves to the reply. */
  async call<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: RunOptions<S> = {},
  ): Promise<Reply<OutputOf<S>>> {
    return start(this, input, readOptions("call()", options, runFields)).result();
  }

  /** Follows a task that exists, in whatever process it runs; starts no task. */
  attach(target: AttachTarget, options: AttachOptions = {}): Run<unknown> {
    const settings = this[settingsKey];
    const to = readOptions("attach()", target, targetFields as Fields<AttachTarget>);
    const read = readOptions("attach()", options, attachFields);
    return new TaskHandle(settings, read, () => findTask(settings.store, to, read));
  }

  /** Adds messages to a session without a model call, after the tasks that were there before. */
  async observe(
    messages: string | InputMessage | readonly InputMessage[],
    options: ObserveOptions,
  ): Promise<void> {
    const read = readOptions("observe()", options, observeFields);
    await new TaskHandle(this[settingsKey], read, (call) =>
      enter(call, messages, "observes"),
    ).result();
  }

  /** Lists the approvals that wait in a session, at any depth. */
  async approvals(query: { sessionId: string; userId?: string }): Promise<readonly Approval[]> {
    const read = readOptions("approvals()", query, approvalsFields);
    return openApprovals(this[settingsKey], read);
  }
}

function start<S extends StandardSchema | undefined>(
  agent: ReActAgent,
  input: Input,
  options: RunOptions<S>,
): TaskHandle<OutputOf<S>> {
  return new TaskHandle(agent[settingsKey], options, (call) => enter(call, input));
}

/** The same agent with some settings changed; an agent that is not of this package stays as it is. */
export function agentWith(agent: Agent, changes: Partial<AgentSettings>): Agent {
  const settings = settingsBehind(agent);
  if (settings === undefined) return agent;
  checkBudget(changes.budget, settings.price !== undefined);
  const changed: ReActAgent = Object.create(ReActAgent.prototype);
  const { name, description } = agent;
  return Object.freeze(
    Object.assign(changed, {
      [settingsKey]: Object.freeze({ ...settings, ...changes }),
      name,
      ...(description !== undefined && { description }),
    }),
  );
}
