import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Plan } from "../../harness/subagents/trees/plan.ts";
import type { Placement } from "./placement.ts";

const program = fileURLToPath(new URL("./tree-process.ts", import.meta.url));

/** The agents that a server has for one tree. */
export interface Scene {
  readonly plan: Plan;
  readonly placement: Placement;
  readonly token: string;
  /** The servers that a chain of calls has passed. */
  readonly via: readonly string[];
}

/** What a server is told. */
export type ToServer =
  | { readonly type: "serve"; readonly scene: Scene }
  | { readonly type: "flush" };

/** What a server reports. */
export type FromServer =
  | { readonly type: "listening"; readonly url: string }
  | { readonly type: "serving" | "flushed" }
  | { readonly type: "executed"; readonly callId: string }
  | { readonly type: "warned"; readonly warning: string };

/** A process that serves the agents of trees. */
export class TreeServer implements AsyncDisposable {
  readonly url: string;
  readonly #child: ChildProcess;
  #onReport: (message: FromServer) => void = () => {};

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
    child.on("message", (message: FromServer) => this.#onReport(message));
  }

  static async start(): Promise<TreeServer> {
    const child = fork(program, { execArgv: ["--disable-warning=ExperimentalWarning"] });
    const [message] = (await once(child, "message")) as [FromServer];
    if (message.type !== "listening") throw new Error(`The process said ${message.type}.`);
    return new TreeServer(child, message.url);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Replaces the agents of the earlier scene; `onReport` gets the reports about this one. */
  async serve(scene: Scene, onReport: (message: FromServer) => void): Promise<void> {
    this.#onReport = onReport;
    await this.#ask({ type: "serve", scene });
  }

  /** Resolves when all reports so far have arrived. */
  flush(): Promise<void> {
    return this.#ask({ type: "flush" });
  }

  async #ask(message: ToServer): Promise<void> {
    const answer = message.type === "serve" ? "serving" : "flushed";
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onMessage = ({ type }: FromServer) => {
      if (type === answer) resolve();
    };
    const onExit = () => reject(new Error("The process has ended."));
    this.#child.on("message", onMessage).on("exit", onExit);
    this.#child.send(message);
    try {
      await promise;
    } finally {
      this.#child.off("message", onMessage).off("exit", onExit);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}
