import type {
  Agent,
  AgentEvent,
  Approval,
  Input,
  OutputOf,
  Run,
  RunOptions,
  StandardSchema,
  StreamOptions,
} from "../protocol/agent.ts";
import type { Reply } from "../protocol/message.ts";
import { projectRun } from "./project.ts";
import { startRoot } from "./root.ts";
import { RootRun } from "./run.ts";
import {
  type AgentSettings,
  type ReActAgentOptions,
  rememberSettings,
  settingsOf,
} from "./settings.ts";
import { waitingTasks } from "./waiting.ts";

/**
 * An agent that reasons and acts in turns. The object holds settings only and never changes: what changes lives in the
 * store and in the run, so any number of sessions may use it at once.
 */
export class ReActAgent implements Agent {
  readonly name: string;
  readonly description?: string;
  readonly #settings: AgentSettings;

  constructor(options: ReActAgentOptions) {
    this.#settings = settingsOf(options);
    this.name = this.#settings.name;
    if (options.description !== undefined) this.description = options.description;
    rememberSettings(this, this.#settings);
    Object.freeze(this);
  }

  /** Starts a task, or goes on with the session's unfinished one; iterate it for task events. */
  run<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: RunOptions<S> = {},
  ): Run<OutputOf<S>> {
    return this.#start(input, options);
  }

  /** The same run as agent events: one per chunk and message, each with the descendant it came from. */
  stream<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: StreamOptions<S> = {},
  ): AsyncIterable<AgentEvent> {
    return projectRun(this.#start(input, options), this.#settings, options);
  }

  /** The same run, awaited to its reply. */
  call<S extends StandardSchema | undefined = undefined>(
    input?: Input,
    options: RunOptions<S> = {},
  ): Promise<Reply<OutputOf<S>>> {
    return this.run(input, options).result();
  }

  #start<S extends StandardSchema | undefined>(input: Input, options: RunOptions<S>) {
    const work = startRoot(this.#settings, input, options);
    return new RootRun<OutputOf<S>>(work, this.#settings, options.until ?? "root");
  }

  /** What waits in a session, at any depth. */
  async approvals({ sessionId }: { sessionId: string }): Promise<readonly Approval[]> {
    const waiting = await waitingTasks(this.#settings.store, { conversation: sessionId });
    return waiting.flatMap(({ approvals }) => approvals);
  }
}
