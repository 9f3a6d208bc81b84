import { expect, it } from "vitest";
import { expectLawful } from "../agent/support/laws.ts";
import { behaviours } from "./support/behaviours.ts";
import { guessedRootId, hostileServer } from "./support/hostile-server.ts";
import { rootOf, scripted, spawn, storeOf } from "./support/team.ts";

const cases = Object.entries(behaviours).map(
  ([title, [outcome, behaviour]]) => [title, outcome, behaviour] as const,
);

it("has at least 60 behaviours", () => expect(cases.length).toBeGreaterThanOrEqual(60));

it.each(cases)("a server that %s ends its own child with %s", async (_, outcome, behaviour) => {
  await using server = await hostileServer(behaviour);
  const turns = [[spawn("far"), spawn("near")], "Done."];
  const lead = scripted("lead", turns, {
    subagents: [
      {
        ...{ name: "far", description: "Far.", url: `${server.url}/agents/a` },
        ...{ allowPrivateNetwork: true, headers: { authorization: "Bearer canary" } },
        limits: { lostAfterMs: 100, maxBytes: 2_000_000 },
      },
      { name: "near", description: "Near.", agent: scripted("near", ["Near."]) },
    ],
  });
  const store = storeOf(lead);
  const reply = await lead.call("Go.", { sessionId: "s", taskId: guessedRootId });
  expect(reply.text).toBe("Done.");
  const rootId = await rootOf(store, "s");
  const children = await store.tasks({ parentSessionId: "s" });
  const far = children.find(({ agentId }) => agentId === "far");
  expect({ code: far?.error?.code ?? far?.status, error: far?.error }).toMatchObject({
    code: outcome,
  });
  expect(far?.error?.where ?? { taskId: far?.taskId, path: "s/far" }).toEqual({
    taskId: far?.taskId,
    path: "s/far",
  });
  expect(children.find(({ agentId }) => agentId === "near")?.status).toBe("completed");
  await expectLawful(store, rootId);
  expect(({} as { isAdmin?: boolean }).isAdmin).toBe(undefined);
  // The model of the parent reads the report of the child alone.
  const [report] = (await store.session("s")).flatMap(({ content }) =>
    content.filter((block) => block.type === "tool_result" && block.id === far?.taskId),
  );
  expect(JSON.stringify(report).length).toBeLessThan(5_000);
});
