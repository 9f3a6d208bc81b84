import { expect, it } from "vitest";
import type { SubagentDeclaration } from "../../src/index.ts";
import { expectLawful } from "../agent/support/laws.ts";
import {
  a2aAnswer,
  a2aBehaviours,
  agentScopeAnswer,
  agentScopeBehaviours,
} from "./support/foreign-behaviours.ts";
import { rawServer } from "./support/raw-server.ts";
import { rootOf, scripted, spawn, storeOf } from "./support/team.ts";

type Place = Pick<SubagentDeclaration, "url" | "protocol" | "a2a">;

/** Expects that a server ends its own child in a documented way, and changes nothing else. */
async function expectOutcome(place: Place, outcome: string): Promise<void> {
  const far = {
    ...{ name: "far", description: "Far.", headers: { authorization: "Bearer canary" } },
    ...{ allowPrivateNetwork: true, limits: { lostAfterMs: 100, maxBytes: 2_000_000 }, ...place },
  } as SubagentDeclaration;
  const near = { name: "near", description: "Near.", agent: scripted("near", ["Near."]) };
  const turns = [[spawn("far"), spawn("near")], "Done."];
  const lead = scripted("lead", turns, { subagents: [far, near] });
  const store = storeOf(lead);
  expect((await lead.call("Go.", { sessionId: "s" })).text).toBe("Done.");
  const children = await store.tasks({ parentSessionId: "s" });
  const child = children.find(({ agentId }) => agentId === "far");
  expect({ code: child?.error?.code ?? child?.status, error: child?.error }).toMatchObject({
    code: outcome,
  });
  expect(children.find(({ agentId }) => agentId === "near")?.status).toBe("completed");
  expect(children.length).toBe(2);
  await expectLawful(store, await rootOf(store, "s"));
  expect(({} as { isAdmin?: boolean }).isAdmin).toBe(undefined);
  expect(JSON.stringify(children)).not.toContain("canary");
  if (child?.status !== "failed") return;
  const [report] = (await store.session("s")).flatMap(({ content }) =>
    content.filter((block) => block.type === "tool_result" && block.id === child.taskId),
  );
  expect(JSON.stringify(report).length).toBeLessThan(20_000);
}

it.each(
  Object.entries(agentScopeBehaviours).map(
    ([title, [outcome, make]]) => [title, outcome, make] as const,
  ),
)("an AgentScope server that %s ends its own child with %s", async (_, outcome, make) => {
  await using server = await rawServer(agentScopeAnswer(make()));
  await expectOutcome({ url: `${server.url}/agents/a`, protocol: "agentscope" }, outcome);
});

it.each(
  Object.entries(a2aBehaviours).map(
    ([title, [outcome, behaviour]]) => [title, outcome, behaviour] as const,
  ),
)("an A2A server that %s ends its own child with %s", async (_, outcome, behaviour) => {
  await using server = await rawServer(a2aAnswer(behaviour));
  await expectOutcome({ a2a: `${server.url}/card.json` }, outcome);
});
