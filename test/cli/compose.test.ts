// The commands of the compose file, on this machine instead of in containers.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { buildPage } from "../../scripts/build-page.ts";
import { freePort } from "../../src/cli/embedded-postgres.ts";
import { connect } from "../../src/client.ts";
import { hasPostgres, type PostgresServer, startPostgres } from "../support/postgres-server.ts";

interface Service {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly stop_grace_period: string;
}

const folder = resolve("docs/deploy");
const { services } = parse(readFileSync(join(folder, "compose.yaml"), "utf8"), {
  merge: true,
}) as { readonly services: Readonly<Record<"database" | "web" | "worker", Service>> };
const token = "a-token-of-the-test";
let database: PostgresServer;

beforeAll(async () => {
  await buildPage();
  if (hasPostgres()) database = await startPostgres(settingsOf(services.database));
});
afterAll(() => database?.remove());

/** The settings in `postgres -c name=value -c …`. */
function settingsOf({ command: [program, ...args] }: Service): Record<string, string> {
  expect(program).toBe("postgres");
  return Object.fromEntries(
    args.filter((word) => word !== "-c").map((setting) => setting.split("=") as [string, string]),
  );
}

/** The variables of a service, as compose fills them in. */
function environmentOf({ environment }: Service): Record<string, string> {
  const given: Record<string, string> = { API_TOKEN: token, DATABASE_PASSWORD: "secret" };
  return Object.fromEntries(
    Object.entries(environment).map(([name, text]) => [
      name,
      name === "DATABASE_URL"
        ? database.url
        : text.replace(/\$\{(\w+)(?::[-?]([^}]*))?\}/g, (_, key, other) => given[key] ?? other),
    ]),
  );
}

function start(service: Service, port: number): ChildProcess {
  const [program, ...args] = service.command;
  expect(program).toBe("node_modules/.bin/rivulet");
  const cwd = mkdtempSync(join(tmpdir(), "rivulet-compose-"));
  const child = spawn(
    process.execPath,
    [
      resolve("src/cli/main.ts"),
      ...args.map((word) => (word === "8080" ? String(port) : word)),
      ...["--config", join(folder, "rivulet.config.ts")],
    ],
    {
      cwd,
      // The config imports the package, which here is not built.
      env: {
        NODE_OPTIONS: `--import ${resolve("examples/from-source.ts")}`,
        ...environmentOf(service),
      },
      stdio: "inherit",
    },
  );
  onTestFinished(() => {
    child.kill("SIGKILL");
    rmSync(cwd, { recursive: true, force: true });
  });
  return child;
}

async function isHealthy({ healthcheck }: Service, port: number): Promise<boolean> {
  const [kind, program, ...args] = healthcheck?.test ?? [];
  expect([kind, program]).toEqual(["CMD", "node"]);
  const here = args.map((word) => word.replace("8080", String(port)));
  const [code] = await once(spawn(process.execPath, here, { stdio: "ignore" }), "exit");
  return code === 0;
}

it.runIf(hasPostgres())(
  "serves, runs and stops as the compose file says",
  async () => {
    const port = await freePort();
    const web = start(services.web, port);
    const workers = [start(services.worker, port), start(services.worker, port)];
    while (!(await isHealthy(services.web, port))) expect(web.exitCode).toBeNull();
    const agent = connect(`http://localhost:${port}`, { token }).agent("assistant");
    const reply = await agent.call("What can you do?");
    expect(reply.text).not.toBe("");
    const processes = [web, ...workers];
    const ended = Promise.all(processes.map((child) => once(child, "exit")));
    for (const child of processes) child.kill("SIGTERM");
    expect(await ended).toEqual(processes.map(() => [0, null]));
    for (const { stop_grace_period: period } of [services.web, services.worker])
      expect(period).toMatch(/^\d+s$/);
  },
  60_000,
);
