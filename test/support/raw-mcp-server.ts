// An MCP server without a library, which sends whatever its file says: `node raw-mcp-server.ts FILE`. The file has the
// fields `tools` (the list), `result` (of every call), `next` (the list after the first call) and `fail` (an error).
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [, , file = ""] = process.argv;
const { tools, result, next, fail } = JSON.parse(readFileSync(file, "utf8"));
let current = tools;

function send(message: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (fail !== undefined) return send({ id, error: { code: -32_000, message: fail } });
  if (method === "initialize") {
    const capabilities = { tools: { listChanged: true } };
    const serverInfo = { name: "raw", version: "1" };
    return send({
      id,
      result: { protocolVersion: params.protocolVersion, capabilities, serverInfo },
    });
  }
  if (method === "tools/list") return send({ id, result: { tools: current } });
  if (method !== "tools/call") return send({ id, result: {} });
  if (next !== undefined) {
    current = next;
    send({ method: "notifications/tools/list_changed" });
  }
  send({ id, result });
});
