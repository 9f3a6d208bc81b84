import { type ChildProcess, fork } from "node:child_process";
import { resolve } from "node:path";
import type { NodeSettings } from "./kinds.ts";

/** A process of the chaos run. */
export interface ChaosNode {
  /** The owner of its leases. */
  readonly id: string;
  /** The address and the token of a web node. */
  readonly url: string;
  readonly token: string;
  readonly child: ChildProcess;
}

const program = resolve("test/chaos/support/node-process.ts");
const startMs = 60_000;

/** Starts a process; rejects with what it printed if it ends or takes too long. */
export function startNode(settings: NodeSettings): Promise<ChaosNode> {
  const child = fork(program, {
    env: { ...process.env, CHAOS_NODE: JSON.stringify(settings) },
    execArgv: ["--disable-warning=ExperimentalWarning"],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let printed = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    printed = (printed + text).slice(-4_000);
  });
  return new Promise((ready, reject) => {
    const fail = (what: string) => {
      clearTimeout(timer);
      child.kill("SIGKILL");
      reject(new Error(`A ${settings.role} ${what}: ${printed}`));
    };
    const timer = setTimeout(() => fail("does not start"), startMs);
    child.once("exit", (code, signal) => fail(`has ended (${code ?? signal})`));
    child.once("message", (said: Omit<ChaosNode, "child">) => {
      clearTimeout(timer);
      child.removeAllListeners("exit");
      ready({ ...said, child });
    });
  });
}
