import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../src/cli/embedded-postgres.ts";
import { login, type PostgresServer } from "./postgres-server.ts";

/** A pooler in front of a server, in transaction mode. */
export interface Pgbouncer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts PgBouncer as Debian packages it; it refuses to run as root. */
export async function startPgbouncer({ host, port }: PostgresServer): Promise<Pgbouncer> {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-pgbouncer-"));
  chmodSync(folder, 0o755);
  const own = await freePort();
  const { user, password } = login;
  const users = join(folder, "users.txt");
  writeFileSync(users, `"${user}" "${password}"\n`);
  const settings = join(folder, "pgbouncer.ini");
  writeFileSync(
    settings,
    `[databases]
postgres = host=${host} port=${port} dbname=postgres
[pgbouncer]
listen_addr = ${host}
listen_port = ${own}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
`,
  );
  const account = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const child: ChildProcess = spawn("pgbouncer", [settings], { ...account, stdio: "ignore" });
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  await listening(host, own);
  return {
    url: `postgres://${user}:${encodeURIComponent(password)}@${host}:${own}/postgres`,
    async stop() {
      process.off("exit", kill);
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGINT");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function listening(host: string, port: number): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect(port, host, () => resolve(true));
      socket.once("connect", () => socket.destroy());
      socket.once("error", () => resolve(false));
    });
    if (isOpen) return;
    if (attempt === 100) throw new Error("PgBouncer did not start.");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
