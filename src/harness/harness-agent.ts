import { ReActAgent } from "../agent/react-agent.ts";
import { assemble } from "./assemble.ts";
import { type Harness, type HarnessAgentOptions, openHarness } from "./harness.ts";

/**
 * An agent that lives in a workspace: a ReActAgent plus the hooks and tools that `assemble` lists. It has the same loop
 * and the same doors.
 */
export class HarnessAgent extends ReActAgent {
  readonly #harness: Harness;

  constructor(options: HarnessAgentOptions) {
    const harness = openHarness(options, (child) => new HarnessAgent(child));
    super(assemble(harness));
    this.#harness = harness;
  }

  /** Ends the MCP servers that it has started, which would keep the process alive. The store stays open. */
  async close(): Promise<void> {
    await this.#harness.servers?.close();
  }
}
