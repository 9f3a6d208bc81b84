import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "../../../src/client.ts";

const program = fileURLToPath(new URL("./chain-process.ts", import.meta.url));
const token = "the-token-of-the-chain";

/** The servers of a chain, the first one first. */
export const roles = ["lead", "reviewer", "cleaner"] as const;
/** A server of a chain. */
export type Role = (typeof roles)[number];

/** Three processes: a root, its child on the second, its grandchild on the third. */
export class Chain implements AsyncDisposable {
  readonly folder: string;
  readonly #plan: string;
  readonly #ports = new Map<Role, number>();
  readonly #urls = new Map<Role, string>();
  readonly #processes = new Map<Role, ChildProcess>();

  constructor(folder: string, plan: "work" | "approval") {
    this.folder = folder;
    this.#plan = plan;
  }

  /** Starts all servers; `between` may put a proxy before one of them. */
  async start(between: (role: Role, url: string) => Promise<string> = async (_, url) => url) {
    for (const role of roles) {
      const port = await freePort();
      this.#ports.set(role, port);
      this.#urls.set(role, await between(role, `http://127.0.0.1:${port}`));
    }
    await Promise.all(roles.map((role) => this.run(role)));
  }

  get url(): string {
    return this.#urls.get("lead") ?? "";
  }

  /** A client of the first server. */
  get lead() {
    return connect(this.url, { token, random: () => 1 }).agent("lead");
  }

  /** Starts a server, again with the same port and store; resolves when it listens. */
  async run(role: Role): Promise<void> {
    const next = this.#urls.get(roles[roles.indexOf(role) + 1] as Role) ?? "";
    const args = [role, this.folder, String(this.#ports.get(role)), next, this.#plan];
    const options = ["--disable-warning=ExperimentalWarning", program, ...args];
    const child = spawn(process.execPath, options, {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, NODE_COMPILE_CACHE: join(this.folder, "..", "compiled") },
    });
    this.#processes.set(role, child);
    await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
  }

  async kill(role: Role): Promise<void> {
    const child = this.#processes.get(role);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  /** The executions of tools, in order. */
  executions(): readonly string[] {
    const path = join(this.folder, "executions");
    return existsSync(path) ? readFileSync(path, "utf8").trimEnd().split("\n") : [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(roles.map((role) => this.kill(role)));
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
