import { usageError } from "./arguments.ts";
import type { Console } from "./console.ts";
import { openEmbeddedPostgres } from "./embedded-postgres.ts";
import { type SuperviseOptions, type Supervisor, supervise } from "./supervisor.ts";

const workerCount = 2;
const embeddedFolder = ".rivulet/postgres";

/** A database that the processes of one start share. */
interface Database {
  readonly url: string;
  /** What people should know about it. */
  readonly line: string;
  close(): Promise<void>;
}

/** The processes of one start: a server that also runs tasks or, with `--postgres`, a web node and workers. */
export async function superviseNodes(
  { program, env, note }: Pick<Console, "program" | "env" | "note">,
  options: SuperviseOptions,
): Promise<Supervisor> {
  const { flags } = options.settings;
  const database = await openDatabase(flags.postgres, env, note);
  if (database === undefined) return supervise(program, options);
  const nodes: Supervisor[] = [];
  const close = async (signal?: string) => {
    await Promise.all(nodes.map((node) => node.close(signal)));
    await database.close();
  };
  let killed = Promise.withResolvers<void>();
  const kill = async (nodeId = "") => {
    const [, ...workers] = nodes;
    await (workers.find((worker) => worker.isNode(nodeId)) ?? workers[0])?.kill();
    killed.resolve();
    killed = Promise.withResolvers();
  };
  const settings = { ...options.settings, databaseUrl: database.url };
  const start = async (isWorker: boolean) =>
    supervise(program, {
      ...options,
      settings: isWorker
        ? { ...settings, isWorker }
        : { ...settings, flags: { ...flags, run: false } },
      ...(!isWorker && { onKill: (nodeId) => void kill(nodeId) }),
    });
  try {
    const web = await start(false);
    nodes.push(web);
    if (flags.run !== false)
      for (let count = 0; count < workerCount; count++) nodes.push(await start(true));
    note(`${database.line} One process serves, ${nodes.length - 1} others run the tasks.`);
    return {
      ...web,
      close,
      async kill() {
        const { promise } = killed;
        const headers = { authorization: `Bearer ${web.token}` };
        await fetch(`${web.url}/v1/demo/kill`, { method: "POST", headers });
        await promise;
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The database of `--postgres`; undefined without the flag. */
async function openDatabase(
  named: string | undefined,
  env: Console["env"],
  note: (line: string) => void,
): Promise<Database | undefined> {
  if (named === undefined) return undefined;
  const url = named || env.DATABASE_URL || "embedded";
  if (url === "embedded") {
    const server = await openEmbeddedPostgres(embeddedFolder, note);
    const state = server.isJoined ? "is the one that was running" : "runs";
    return { ...server, line: `PostgreSQL ${state}, with its data in ${server.folder}.` };
  }
  if (!/^postgres(ql)?:\/\//.test(url))
    throw usageError(
      `--postgres takes embedded or an address, got ${JSON.stringify(url)}.`,
      "Write --postgres embedded, --postgres postgres://host/database, or set DATABASE_URL.",
    );
  const from = named ? "--postgres" : "DATABASE_URL";
  return { url, line: `The database is the one of ${from}.`, close: async () => {} };
}
