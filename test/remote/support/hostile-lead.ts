// Runs a child on a hostile server, and prints how it ended and the most memory of this process: node hostile-lead.ts <place>
import type { SubagentDeclaration } from "../../../src/index.ts";
import { scripted, spawn, storeOf } from "./team.ts";

const limits = { lostAfterMs: 100, maxBytes: 8_000_000 };
const far = {
  ...{ name: "far", description: "Far.", allowPrivateNetwork: true, limits },
  ...JSON.parse(process.argv[2] ?? "{}"),
} as SubagentDeclaration;
const lead = scripted("lead", [[spawn("far")], "Done."], { subagents: [far] });
await lead.call("Go.", { sessionId: "s" });
const [child] = await storeOf(lead).tasks({ parentSessionId: "s" });
const peakMb = Math.round(process.resourceUsage().maxRSS / 1024);
console.log(JSON.stringify({ outcome: child?.error?.code ?? child?.status, peakMb }));
