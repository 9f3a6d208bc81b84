// The client that the conformance suite of MCP starts: an agent's tools, and a person who logs in at once.
import { connectMcp, memoryStore, toolAgent } from "../../src/index.ts";

const url = process.argv.at(-1) ?? "";
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}") as {
  readonly client_id?: string;
  readonly client_secret?: string;
  readonly toolCalls?: readonly { readonly name: string; readonly arguments?: object }[];
};
let kept = "";

const connection = await connectMcp(
  {
    ...{ name: "suite", url },
    oauth: {
      redirectUrl: "http://localhost:3000/callback",
      clientMetadataUrl: "https://conformance-test.local/client-metadata.json",
      ...(context.client_id !== undefined && { clientId: context.client_id }),
      ...(context.client_secret !== undefined && { clientSecret: context.client_secret }),
      async authorize(address) {
        const response = await fetch(address, { redirect: "manual" });
        return response.headers.get("location") ?? "";
      },
      tokens: {
        load: () => kept,
        save(text) {
          kept = text;
        },
      },
    },
  },
  { prefix: "", onWarning: console.error, connectTimeoutMs: 60_000 },
);

/** An input that fits a schema; a field with a default is left out. */
function sampleOf(schema: { readonly properties?: Record<string, { readonly type?: string }> }) {
  const samples: Readonly<Record<string, unknown>> = { number: 5, integer: 5, boolean: true };
  const entries = Object.entries(schema.properties ?? {}).filter(
    ([, field]) => !("default" in field),
  );
  return Object.fromEntries(
    entries.map(([name, { type = "" }]) => [name, samples[type] ?? "text"]),
  );
}

const store = memoryStore();
const tools = new Map(connection.tools().map((tool) => [tool.name, tool]));
const calls =
  context.toolCalls ??
  [...tools.values()].map(({ name, inputSchema }) => ({ name, arguments: sampleOf(inputSchema) }));
for (const { name, arguments: input = {} } of calls) {
  const tool = tools.get(name);
  if (tool === undefined) continue;
  const agent = toolAgent(tool, { store });
  const sessionId = `suite-${calls.findIndex((call) => call.name === name)}`;
  let reply = await agent.call(JSON.stringify(input), { sessionId });
  while (reply.approvals.length > 0) {
    const answers = reply.approvals.map((approval) =>
      approval.answer(JSON.stringify(sampleOf(approval.responseSchema ?? {}))),
    );
    reply = await agent.call(answers, { sessionId });
  }
  console.log(name, reply.text);
}
await connection.close();
