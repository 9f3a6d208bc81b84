import { expect, it } from "vitest";
import { nextTurn } from "../../src/base/time.ts";
import { memoryStore, type Store } from "../../src/index.ts";
import { keepEvents } from "../support/keep-events.ts";
import { fakeAgent, left, teamAbove, untilSeen } from "./support/foreign-agent.ts";

it("ends once if something is posted while the end of an agent that is not of this package is stored", async () => {
  const fake = fakeAgent(async function* ({ signal }) {
    yield "Hel";
    await new Promise((resolve) => signal?.addEventListener("abort", resolve));
    return "Hel";
  });
  const inner = memoryStore(keepEvents);
  let posted = 0;
  const store: Store = {
    ...inner,
    async commit(commit, following = []) {
      const records = [commit, ...following].flatMap(({ tasks = [] }) => tasks);
      if (records.some(({ agentId, status }) => agentId === "fake" && status === "cancelled")) {
        posted += 1;
        await run.steer("Hurry.");
        for (let turns = 0; turns < 20; turns++) await nextTurn(); // the post has been read
      }
      return inner.commit(commit, following);
    },
  };
  const { lead } = teamAbove(fake, { store });
  const run = lead.run("Go.", { sessionId: "s" });
  await untilSeen(run, "Hel");
  await run.cancel("changed my mind");
  const { record } = await left(store, await run.result());
  expect(record).toMatchObject({ status: "cancelled", generateReason: "interrupted" });
  expect(posted).toBe(1);
});
