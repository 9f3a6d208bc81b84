import { expect, it } from "vitest";
import { emptyTree, materialize, reduce } from "../../src/protocol.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { expectLawful, readLog } from "../agent/support/laws.ts";
import { type Cut, type CutProxy, cutProxy, type Fault } from "../client/support/cut-proxy.ts";
import { comparable, type Served, serveAgents } from "../client/support/serving.ts";
import { on, rootOf, scripted, spawn, storeOf } from "./support/team.ts";

const faults: readonly Fault[] = ["cut", "half-close", "torn", "stall", "throttle"];
const words = { text: ["One ", "two ", "three ", "four."] };

/** The servers of a child and a grandchild, each behind a proxy. */
async function chain() {
  const options = { heartbeatMs: 30 };
  const byPrompt = { by: "prompt" } as const;
  const cleaner = scripted(
    "cleaner",
    [[{ call: "look", input: { at: "it" } }], words],
    {},
    byPrompt,
  );
  const third = await serveAgents([cleaner], options);
  const thirdProxy = await cutProxy(third.server.url);
  const subagents = [on(behind(third, thirdProxy), "cleaner")];
  const reviewer = scripted("reviewer", [[spawn("cleaner")], words], { subagents }, byPrompt);
  const second = await serveAgents([reviewer], options);
  const secondProxy = await cutProxy(second.server.url);
  const all = [thirdProxy, secondProxy, third, second];
  return {
    proxies: [secondProxy, thirdProxy] as const,
    second: behind(second, secondProxy),
    async [Symbol.asyncDispose]() {
      for (const one of all) await one[Symbol.asyncDispose]();
    },
  };
}

function behind({ server }: Served, { url }: CutProxy): Pick<Served, "server"> {
  return { server: { ...server, url } };
}

it("a child and a grandchild behind broken connections leave the log of whole ones", async () => {
  await using servers = await chain();
  const run = async (hop: 0 | 1, plan: Cut[]) => {
    servers.proxies[hop].plan = plan;
    const subagents = [on(servers.second, "reviewer")];
    const lead = scripted("lead", [[spawn("reviewer")], "Done."], { subagents });
    const reply = await lead.call("Go.", { sessionId: "s" });
    const rootId = await rootOf(storeOf(lead), "s");
    await expectLawful(storeOf(lead), rootId, JSON.stringify({ hop, plan }));
    const log = await readLog(storeOf(lead), rootId);
    const tree = reduce(emptyTree(), log);
    expect({ plan, gaps: tree.gaps, ignored: tree.ignored }).toEqual({
      plan,
      gaps: [],
      ignored: 0,
    });
    return { text: reply.text, document: comparable(materialize(tree)) };
  };
  const whole = await run(0, []);
  expect(whole.text).toBe("Done.");
  for (const hop of [0, 1] as const) {
    const before = servers.proxies[hop].count.faults;
    const length = hop === 0 ? 50 : 30;
    for (let after = 0; after < length; after++) {
      const kinds = isDeep ? faults : [faults[(after + hop) % faults.length] as Fault];
      for (const fault of kinds)
        expect(
          await run(hop, [
            { fault, after },
            { fault: "cut", after: 2 },
          ]),
        ).toEqual(whole);
    }
    expect(servers.proxies[hop].count.faults - before).toBeGreaterThan(length);
  }
});
