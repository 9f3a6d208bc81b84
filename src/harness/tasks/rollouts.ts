import { type AgentSettings, hasHome, moveConversation } from "../../agent/index.ts";
import type { Clock } from "../../base/clock.ts";
import { RivuletError } from "../../base/error.ts";
import type { Store, TaskRecord } from "../../contract/index.ts";

type AgentOf = (root: TaskRecord) => AgentSettings | undefined;

/** How long a run stays on its version while no process has it. */
const stayMs = 10 * 60_000;
const lookMs = 30_000;
/** How many waiting conversations one look reads. */
const most = 200;

/** Lets runs leave a version of their agent that no process has had for ten minutes. */
export class Rollouts {
  readonly #store: Store;
  readonly #clock: Clock;
  #lookAt = Number.NEGATIVE_INFINITY;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Frees the conversations that a claim does not find. */
  async look(agentOf: AgentOf): Promise<void> {
    const now = this.#clock.now();
    if (now >= this.#lookAt && now < this.#lookAt + lookMs) return;
    this.#lookAt = now;
    for (const sessionId of await this.#store.expired(most)) {
      try {
        const [root] = await this.#store.tasks({ sessionId, newestFirst: true, limit: 1 });
        if (root && agentOf(root)) await this.free(root);
      } catch (error) {
        if (!(error instanceof RivuletError)) throw error; // it is damaged, or another process has taken it
      }
    }
  }

  /** Lets a run leave its version if no process has had that for ten minutes; returns whether it may. */
  async free(root: TaskRecord): Promise<boolean> {
    if (!root.agentVersion || (await hasHome(this.#store, { ...root, place: "" }, stayMs)))
      return false;
    return moveConversation(this.#store, root.sessionId, { agentVersion: "" });
  }
}
