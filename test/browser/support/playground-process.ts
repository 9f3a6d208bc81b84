// Serves a team that writes slowly, with the page and its button that kills:
// node playground-process.ts <path> <port> <token> [stops]. With `stops` its agents fall silent in mid-sentence.
import { agentTool, ReActAgent, sqliteStore } from "../../../src/index.ts";
import { serve } from "../../../src/server.ts";
import { type ScriptedTurn, scriptedModel } from "../../../src/testing.ts";

const [path = "", port = "0", token = "", stops] = process.argv.slice(2);
const store = sqliteStore(path);
/** One block of text in many deltas, so that a sentence is cut in its middle. */
function sentence(name: string): ScriptedTurn {
  const words = Array.from({ length: 59 }, (_, index) => `${name}${index} `);
  const deltas = [...words, `the end of ${name}.`].flatMap((delta) => [
    { delayMs: 40 },
    { chunk: { type: "text-delta" as const, id: "1", delta } },
  ]);
  const said = stops === undefined ? deltas : [...deltas.slice(0, 2 * 20), { hang: true as const }];
  const [start, end] = [{ type: "text-start" as const }, { type: "text-end" as const }];
  return [{ chunk: { ...start, id: "1" } }, ...said, { chunk: { ...end, id: "1" } }];
}
const writer = (name: string) =>
  new ReActAgent({
    name,
    store,
    leaseMs: 1_000,
    model: scriptedModel([sentence(name)], { by: "prompt" }),
  });
const lead = new ReActAgent({
  name: "lead",
  store,
  leaseMs: 1_000,
  tools: [agentTool(writer("ann")), agentTool(writer("bob"))],
  model: scriptedModel(
    [
      [
        { call: "ann", input: { prompt: "Write." } },
        { call: "bob", input: { prompt: "Write." } },
      ],
      ["All is written."],
    ],
    { by: "prompt" },
  ),
});
const { pageUrl } = await serve({
  ...{ agents: [lead], store, token, port: Number(port), page: true, log: false, retryMs: 200 },
  demo: { kill: () => process.kill(process.pid, "SIGKILL") },
});
console.log(pageUrl);
