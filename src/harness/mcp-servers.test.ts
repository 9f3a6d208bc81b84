import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { ManualClock } from "../testing/clock.ts";
import { mcpServers, type ToolsFile } from "./mcp-servers.ts";

const script = join(import.meta.dirname, "../../test/support/mcp-server.ts");
const program = { command: process.execPath, args: [script, "stdio"] };
const { signal } = new AbortController();

function serversOf(
  file: { current?: ToolsFile },
  clock = new ManualClock(0),
  onWarning: (message: string) => void = () => {},
) {
  const servers = mcpServers({}, async () => file.current, clock, onWarning);
  onTestFinished(() => servers.close());
  return servers;
}
const names = (servers: ReturnType<typeof serversOf>) => servers.tools().map(({ name }) => name);

it("starts and stops servers when the file changes", async () => {
  const file: { current?: ToolsFile } = { current: { servers: { a: program }, deny: ["a_fail"] } };
  const servers = serversOf(file);
  expect(names(servers)).toEqual([]);
  await servers.refresh(signal);
  const [first] = servers.tools();
  expect(names(servers)).toContain("a_echo");
  expect(servers.allows?.("a_fail")).toBe(false);
  await servers.refresh(signal);
  expect(servers.tools()[0]).toBe(first); // the same connection
  file.current = { servers: { b: program }, deny: [], allow: ["b_*"] };
  await servers.refresh(signal);
  expect(names(servers)).toContain("b_echo");
  expect(names(servers)).not.toContain("a_echo");
  expect(servers.allows?.("read_file")).toBe(false);
  delete file.current;
  await servers.refresh(signal);
  expect(names(servers)).toEqual([]);
  expect(servers.allows).toBeUndefined();
});

it("retries an unreachable server without delaying a task", async () => {
  const directory = mkdtempSync(join(tmpdir(), "rivulet-mcp-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const late = join(directory, "server.mjs");
  const clock = new ManualClock(0);
  const file = {
    current: { servers: { a: { command: process.execPath, args: [late, "stdio"] } }, deny: [] },
  };
  const servers = serversOf(file, clock);
  await servers.refresh(signal);
  expect(names(servers)).toEqual([]);
  writeFileSync(late, `await import(${JSON.stringify(script)});`);
  await servers.refresh(signal);
  expect(names(servers)).toEqual([]); // not at once
  await clock.advance(30_001);
  await servers.refresh(signal);
  await vi.waitFor(() => expect(names(servers)).toContain("a_echo"), 20_000);
});

it("stops waiting on abort, and close() ends a program that is still connecting", async () => {
  const directory = mkdtempSync(join(tmpdir(), "rivulet-mcp-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const started = join(directory, "pid");
  const code = `fs.writeFileSync(${JSON.stringify(started)}, String(process.pid)); setInterval(() => {}, 1000)`;
  const hanging = { command: process.execPath, args: ["-e", code], connectTimeoutMs: 600_000 };
  const servers = serversOf({ current: { servers: { a: hanging }, deny: [] } });
  const stop = new AbortController();
  const refreshed = servers.refresh(stop.signal);
  const pid = await vi.waitFor(() => Number(readFileSync(started, "utf8") || Number.NaN), 20_000);
  stop.abort();
  await refreshed;
  expect(names(servers)).toEqual([]);
  expect(process.kill(pid, 0)).toBe(true);
  await servers.close();
  expect(() => process.kill(pid, 0)).toThrow();
});
