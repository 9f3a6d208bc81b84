import { expect, it, vi } from "vitest";
import { textOf } from "../../../src/contract/message.ts";
import type { TaskRecord } from "../../../src/contract/store.ts";
import { type Hook, ReActAgent, tool } from "../../../src/index.ts";
import type { SimulatedProcess } from "../../harness/tasks/support/simulated-process.ts";
import { expectLawful } from "../support/laws.ts";
import { play, promptModel } from "./support/script-prompt.ts";
import { createWorld, leaseMs, sessionId } from "./support/world.ts";

const call = { call: "start_work" };

/** A lead whose tool starts a worker in the background. */
function leadOn({ store, clock }: SimulatedProcess, hooks: readonly Hook[] = []): ReActAgent {
  const common = { store, clock, leaseMs, model: promptModel(clock) };
  const worker = new ReActAgent({ ...common, name: "worker" });
  const startWork = tool({
    name: "start_work",
    description: "Starts a worker.",
    idempotent: true,
    async execute(_, context) {
      const options = { agentId: "worker", mode: "background" } as const;
      const { status, reply } = await context.runChild(worker, play("Worked."), options);
      return `${status} ${reply?.text ?? ""}`.trim();
    },
  });
  const resolveChild = () => worker;
  return new ReActAgent({ ...common, name: "lead", tools: [startWork], hooks, resolveChild });
}

it("a background call that a takeover repeats returns before its child, which has ended", async () => {
  const world = createWorld();
  const [a, b] = [world.start("a"), world.start("b")];
  const commit = world.store.commit;
  const isChild = ({ depth }: TaskRecord) => depth === 1;
  vi.spyOn(world.store, "commit").mockImplementation(async (step) => {
    const written = await commit(step);
    if (step.tasks?.some(isChild)) a.process.kill(); // its call has no result yet
    return written;
  });
  const lost = leadOn(a.process).call(play(call, "Led."), { sessionId });
  lost.catch(() => {});
  await vi.waitFor(() => expect(a.process.state).toBe("dead"));
  vi.restoreAllMocks();

  const childEnd = Promise.withResolvers<void>();
  const lead = leadOn(b.process, [{ name: "wait", preCall: () => childEnd.promise }]);
  const run = lead.attach({ sessionId });
  const { taskId } = await run.task;
  await world.expireLeases();
  await vi.waitFor(async () => {
    const [, child] = await world.store.tasks({ rootTaskId: taskId });
    expect(child?.status).toBe("completed");
  });
  childEnd.resolve();
  expect((await run.result()).text).toBe("Led.");
  const blocks = (await world.store.session(sessionId)).flatMap(({ content }) => content);
  const results = blocks.flatMap((block) =>
    block.type === "tool_result" ? [textOf(block.output)] : [],
  );
  expect(results).toEqual(["in_progress"]);
  const hints = blocks.flatMap((block) => (block.type === "hint" ? [block.text] : []));
  expect(hints).toEqual([expect.stringContaining("A background task has ended.")]);
  expect(await world.store.posts({ sessionId })).toEqual([]);
  await expectLawful(world.store, taskId);
  a.process.bury();
  await expect(lost).rejects.toMatchObject({ code: "store_failed" });
});
