import { expect, it } from "vitest";
import { z } from "zod";
import { HarnessAgent, memoryStore, RivuletError, storeFilesystem, tool } from "../../src/index.ts";
import type { LogEvent } from "../../src/protocol/event.ts";
import { storeIdOf } from "../../src/store/store-id.ts";
import { scriptedModel } from "../../src/testing.ts";
import { expectLawful, readLog } from "../agent/support/laws.ts";
import { serveAgents } from "../client/support/serving.ts";
import { stored } from "../server/support/server.ts";
import { on, rootOf, scripted, serveOne, spawn, storeOf } from "./support/team.ts";

it("streams a child on another server with its own numbers and a source from here", async () => {
  await using far = await serveOne(
    scripted("reviewer", [[{ call: "look", input: { at: "it" } }], { text: ["Good", ".[^1]"] }]),
  );
  const lead = scripted("lead", [[spawn("reviewer")], "Reviewed.[^1]"], {
    subagents: [on(far, "reviewer")],
  });
  const store = storeOf(lead);
  const reply = await lead.call("Go.", { sessionId: "s" });
  expect(reply.text).toBe("Reviewed.[^1]");
  const rootId = await rootOf(store, "s");
  await expectLawful(store, rootId);
  const log = (await readLog(store, rootId)) as readonly LogEvent[];
  const started = log.find(({ type }) => type === "task.child.started");
  expect(started).toMatchObject({ mode: "sync", remote: true });
  const [child] = await store.tasks({ parentSessionId: "s" });
  const own = log.filter((event) => event.task_id === child?.taskId);
  expect(own.map(({ task_seq }) => task_seq)).toEqual(own.map((_, index) => index));
  expect(new Set(own.map(({ source }) => source?.path))).toEqual(new Set(["s/reviewer"]));
  expect(child?.remote).toMatchObject({ url: `${far.server.url}/agents/reviewer` });
  expect(child?.total?.usage).toEqual(child?.usage);
  // The citation leads to the block of the child.
  const cited = log.findLast(({ type }) => type === "task.text.annotation.added");
  expect(cited).toMatchObject({ annotation: { target: { task_id: child?.taskId } } });
});

it("runs connect(url).agent(name) on its server and not as an agent of another kind", async () => {
  await using far = await serveOne(scripted("reviewer", ["Good."]));
  const agent = far.remote.agent("reviewer");
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [{ name: "reviewer", description: "Reviews.", agent }],
  });
  await lead.call("Go.", { sessionId: "s" });
  const [child] = await storeOf(lead).tasks({ parentSessionId: "s" });
  expect(child).toMatchObject({ status: "completed", remote: { taskId: child?.taskId } });
  await expectLawful(storeOf(lead), await rootOf(storeOf(lead), "s"));
});

it("attaches no file on the other server to a task that a model has written", async () => {
  const files = storeFilesystem(memoryStore());
  await files.write("plan.md", new TextEncoder().encode("Sow the seeds."));
  const model = scriptedModel(() => "Read.");
  const reviewer = new HarnessAgent({ name: "reviewer", model, filesystem: files });
  await using far = await serveOne(reviewer);
  const lead = scripted("lead", [[spawn("reviewer", "See @plan.md")], "Done."], {
    subagents: [on(far, "reviewer")],
  });
  await lead.call("Go.", { sessionId: "s" });
  expect(JSON.stringify(model.calls[0]?.prompt)).not.toContain("Sow the seeds.");
  await far.remote.agent("reviewer").call("See @plan.md");
  expect(JSON.stringify(model.calls[1]?.prompt)).toContain("Sow the seeds.");
});

it("asks at the root for an approval of a grandchild on a third server", async () => {
  await using third = await serveOne(
    scripted("cleaner", [[{ call: "remove", input: { path: "a" } }], "Clean."]),
  );
  await using second = await serveOne(
    scripted("reviewer", [[spawn("cleaner")], "Good."], { subagents: [on(third, "cleaner")] }),
  );
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(second, "reviewer")],
  });
  const asked = await lead.call("Go.", { sessionId: "s" });
  expect(asked.generateReason).toBe("approval_required");
  expect(asked.approvals).toMatchObject([
    { path: "s/reviewer/cleaner", call: { name: "remove", input: { path: "a" } } },
  ]);
  const reply = await lead.call(
    asked.approvals.map((approval) => approval.approve()),
    {
      sessionId: "s",
    },
  );
  expect(reply.text).toBe("Done.");
  expect(await lead.approvals({ sessionId: "s" })).toEqual([]);
  await expectLawful(storeOf(lead), await rootOf(storeOf(lead), "s"));
});

it("remembers earlier tasks of a child, and lists where it runs", async () => {
  await using far = await serveOne(
    scripted("reviewer", ({ prompt }) => `I have ${prompt.length - 1} messages.`),
  );
  const lead = scripted(
    "lead",
    [
      [spawn("reviewer", "One.", { label: "r" })],
      [{ call: "agent_send", input: { label: "r", message: "Two." } }],
      [{ call: "agent_list", input: {} }],
      "Done.",
    ],
    { subagents: [on(far, "reviewer")] },
  );
  await lead.call("Go.", { sessionId: "s" });
  const results = (await storeOf(lead).session("s")).flatMap(({ content }) =>
    content.flatMap((block) =>
      block.type === "tool_result" ? [JSON.stringify(block.output)] : [],
    ),
  );
  expect(results[0]).toContain("I have 1 messages.");
  expect(results[1]).toContain("I have 3 messages.");
  expect(results[2]).toContain(`reviewer (runs on ${far.server.url}/agents/reviewer)`);
});

it("continues a session below a child whose earlier task ends on another connection", async () => {
  const isQueued = async () => {
    const tasks = await storeOf(reviewer).tasks({ status: ["queued"] });
    return tasks.some(({ agentId }) => agentId === "cleaner");
  };
  const hold = tool({
    name: "hold",
    description: "Waits for the second task.",
    input: z.object({}),
    execute: async () => {
      while (!(await isQueued())) await new Promise((resolve) => setTimeout(resolve, 5));
      return "held";
    },
  });
  const reviewer = scripted(
    "reviewer",
    ({ prompt }) => {
      const text = JSON.stringify(prompt);
      if (text.includes("Second.")) return "Both.";
      if (text.includes("Two."))
        return [{ call: "agent_send", input: { label: "c", message: "Again." } }];
      const start = spawn("cleaner", "Begin.", { label: "c", timeout_seconds: 0 });
      return text.includes("accepted") ? "Started." : [start];
    },
    {
      subagents: [
        {
          ...{ name: "cleaner", description: "Cleans.", tools: [hold] },
          model: scriptedModel([[{ call: "hold", input: {} }], "First.", "Second."]),
        },
      ],
    },
  );
  await using far = await serveOne(reviewer);
  const lead = scripted(
    "lead",
    [
      [spawn("reviewer", "One.", { label: "r" })],
      [{ call: "agent_send", input: { label: "r", message: "Two." } }],
      "Done.",
    ],
    { subagents: [on(far, "reviewer")] },
  );
  const store = storeOf(lead);
  const reply = await lead.call("Go.", { sessionId: "s" });
  expect(reply.text).toBe("Done.");
  const [one, two] = (await store.tasks({ conversation: "s" })).filter(
    ({ agentId }) => agentId === "cleaner",
  );
  expect([one?.status, two?.status]).toEqual(["completed", "completed"]);
  expect(two?.sessionId).toBe(one?.sessionId);
  const texts = (await store.session(one?.sessionId ?? "")).flatMap(({ content }) =>
    content.flatMap((block) => (block.type === "text" ? [block.text] : [])),
  );
  expect(texts).toEqual(["First.", "Second."]);
  await expectLawful(store, await rootOf(store, "s"));
});

it("delivers the result of a background child", async () => {
  await using far = await serveOne(scripted("reviewer", ["Good."]));
  const lead = scripted(
    "lead",
    ({ prompt }) => {
      const text = JSON.stringify(prompt);
      if (text.includes("Good.")) return "It is good.";
      if (text.includes("accepted")) return [{ call: "task_wait", input: {} }];
      return [spawn("reviewer", "Do it.", { timeout_seconds: 0 })];
    },
    { subagents: [on(far, "reviewer")] },
  );
  expect((await lead.call("Go.", { sessionId: "s" })).text).toBe("It is good.");
});

it("returns structured output, and fails the child for a value that does not fit", async () => {
  await using far = await serveOne(
    scripted("reviewer", [[{ call: "generate_response", input: { score: 3 } }]]),
  );
  const output = z.object({ score: z.number() });
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(far, "reviewer", { output })],
  });
  await lead.call("Go.", { sessionId: "s" });
  const [child] = await storeOf(lead).tasks({ parentSessionId: "s" });
  expect(child).toMatchObject({ status: "completed", structured: { score: 3 } });
});

it("sends what is left of the budget, which the other server enforces", async () => {
  await using far = await serveOne(
    scripted("reviewer", () => [{ call: "look", input: { at: String(Math.random()) } }]),
  );
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(far, "reviewer", { budget: { iterations: 2 } })],
  });
  await lead.call("Go.", { sessionId: "s" });
  const [child] = await storeOf(lead).tasks({ parentSessionId: "s" });
  expect(child).toMatchObject({ status: "incomplete", generateReason: "budget" });
});

it("cancels the model request of a grandchild two servers away", async () => {
  const isAsked = Promise.withResolvers<void>();
  const isAborted = Promise.withResolvers<void>();
  const stuck = tool({
    name: "stuck",
    description: "Never ends.",
    input: z.object({}),
    execute: (_, { signal }) => {
      isAsked.resolve();
      return new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          isAborted.resolve();
          reject(signal.reason as Error);
        });
      });
    },
  });
  await using third = await serveOne(
    scripted("cleaner", [[{ call: "stuck", input: {} }], "Clean."], { tools: [stuck] }),
  );
  await using second = await serveOne(
    scripted("reviewer", [[spawn("cleaner")], "Good."], { subagents: [on(third, "cleaner")] }),
  );
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(second, "reviewer")],
  });
  const run = lead.run("Go.", { sessionId: "s" });
  await isAsked.promise;
  await run.cancel("enough");
  await isAborted.promise;
  expect((await run.result()).generateReason).toBe("interrupted");
  const store = storeOf(lead);
  const tasks = await store.tasks({ conversation: "s" });
  expect(tasks.map(({ status }) => status)).toEqual(["cancelled", "cancelled", "cancelled"]);
  await expectLawful(store, await rootOf(store, "s"));
});

it("steers a remote child by its task id", async () => {
  const isAsked = Promise.withResolvers<void>();
  const isSteered = Promise.withResolvers<void>();
  const wait = tool({
    name: "wait",
    description: "Waits.",
    input: z.object({}),
    execute: async () => {
      isAsked.resolve();
      await isSteered.promise;
      return "waited";
    },
  });
  await using far = await serveOne(
    scripted(
      "reviewer",
      ({ prompt }) => {
        const text = JSON.stringify(prompt);
        if (!text.includes("waited")) return [{ call: "wait", input: {} }];
        return text.includes("Be brief.") ? "Ok." : "A very long answer.";
      },
      { tools: [wait] },
    ),
  );
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(far, "reviewer")],
  });
  const run = lead.run("Go.", { sessionId: "s" });
  await isAsked.promise;
  const store = storeOf(lead);
  const [child] = await store.tasks({ parentSessionId: "s" });
  await lead.attach({ taskId: child?.taskId ?? "" }).steer("Be brief.");
  while ((await store.posts({ conversation: "s" })).length > 0)
    await new Promise((resolve) => setTimeout(resolve, 5));
  isSteered.resolve();
  await run.result();
  const [ended] = await store.tasks({ parentSessionId: "s" });
  expect(JSON.stringify(ended?.result)).toContain("Ok.");
});

it("fails the child with the reason when its server is gone, within the limit of the declaration", async () => {
  const far = await serveOne(scripted("reviewer", ["Good."]));
  await far.server.close();
  const lead = scripted("lead", [[spawn("reviewer")], "Done without it."], {
    subagents: [on(far, "reviewer", { limits: { lostAfterMs: 300 } })],
  });
  expect((await lead.call("Go.", { sessionId: "s" })).text).toBe("Done without it.");
  const store = storeOf(lead);
  const [child] = await store.tasks({ parentSessionId: "s" });
  expect(child).toMatchObject({ status: "failed", error: { code: "remote_lost" } });
  await expectLawful(store, await rootOf(store, "s"));
});

it("refuses a chain of servers that leads back", async () => {
  const lead = scripted("lead", [[spawn("lead")], "Done."]);
  await using near = await serveAgents([lead]);
  const store = storeOf(lead);
  const caller = new HarnessAgent({
    ...{ name: "caller", filesystem: false, store },
    model: scriptedModel([[spawn("lead")], "Done."]),
    subagents: [on(near, "lead")],
  });
  await caller.call("Go.", { sessionId: "s" });
  const [child] = await store.tasks({ parentSessionId: "s" });
  expect(child).toMatchObject({ status: "failed", error: { code: "remote_loop" } });
});

it("gives another user of the parent no access to a remote child", async () => {
  await using far = await serveOne(
    scripted("reviewer", [[{ call: "remove", input: { path: "a" } }], "Good."]),
  );
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(far, "reviewer")],
  });
  const asked = await lead.call("Go.", { sessionId: "s", userId: "ann" });
  const [child] = await storeOf(lead).tasks({ parentSessionId: "s" });
  const taskId = child?.taskId ?? "";
  const answers = asked.approvals.map((approval) => approval.approve());
  for (const userId of ["bob", undefined]) {
    const user = userId === undefined ? {} : { userId };
    const tries = [
      lead.call(answers, { sessionId: "s", ...user }),
      lead.approvals({ sessionId: "s", ...user }),
      lead.attach({ taskId }, user).result(),
    ];
    await lead
      .attach({ taskId }, user)
      .cancel()
      .catch(() => {});
    for (const tried of tries) {
      const error = await Promise.resolve(tried).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(RivuletError);
      expect(error).toMatchObject({ code: "not_found" });
    }
  }
  expect(await storeOf(lead).task(taskId)).toMatchObject({ status: "suspended" });
  const reply = await lead.call(answers, { sessionId: "s", userId: "ann" });
  expect(reply.text).toBe("Done.");
});

it("sends the headers that the declaration has for the user, and stores them nowhere", async () => {
  const secret = "canary-of-the-headers";
  const reviewer = scripted("reviewer", ["Good."]);
  const users: (string | undefined)[] = [];
  const options = {
    auth: {
      authenticate(request: Request) {
        const [, userId] =
          /^Bearer canary-of-the-headers (\w+)$/.exec(request.headers.get("authorization") ?? "") ??
          [];
        users.push(userId);
        return userId === undefined ? undefined : { userId };
      },
    },
  };
  await using far = await serveAgents([reviewer], options, { token: "unused" });
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [
      on(far, "reviewer", {
        headers: ({ userId }) => ({ authorization: `Bearer ${secret} ${userId}` }),
      }),
    ],
  });
  await lead.call("Go.", { sessionId: "s", userId: "ann" });
  expect(new Set(users)).toEqual(new Set(["ann"]));
  const store = storeOf(lead);
  const rootId = await rootOf(store, "s");
  const kept = [
    await store.tasks({ conversation: "s" }),
    await readLog(store, rootId),
    await store.session("s"),
  ];
  expect(JSON.stringify(kept)).not.toContain(secret);
  const [far1] = await storeOf(reviewer).tasks({
    rootTaskId: (await store.tasks({ parentSessionId: "s" }))[0]?.remote?.taskId ?? "",
  });
  const { origin } = far1 ?? {};
  expect(far1).toMatchObject({ userId: "ann", origin: { via: { depth: 1 } } });
  expect(origin?.via?.stores).toEqual([await storeIdOf(store)]);
  expect(JSON.stringify(origin)).not.toContain(rootId);
});

it("counts the depth of subagents over all servers", async () => {
  const names = ["first", "second", "third", "fourth"];
  const servers: Awaited<ReturnType<typeof serveOne>>[] = [];
  const agents: HarnessAgent[] = [];
  // Each agent calls the next one on another server; the last of them would be at level 4.
  for (const [index, name] of [...names.entries()].reverse()) {
    const next = names[index + 1];
    const [server] = servers;
    const script = next === undefined ? ["Deep."] : [[spawn(next)], "Done."];
    const subagents = next !== undefined && server ? [on(server, next)] : [];
    agents.unshift(scripted(name, script, { subagents }));
    servers.unshift(await serveOne(agents[0] as HarnessAgent));
  }
  const lead = scripted("lead", [[spawn("first")], "Done."], {
    subagents: [on(servers[0] as (typeof servers)[number], "first")],
  });
  await lead.call("Go.", { sessionId: "s" });
  const tasks = await storeOf(lead).tasks({ conversation: "s" });
  expect(tasks.map(({ agentId, depth }) => `${agentId} ${depth}`)).toEqual([
    ...["lead 0", "first 1", "second 2", "third 3"],
  ]);
  const third = await storeOf(agents[2] as HarnessAgent).tasks({});
  expect(third).toMatchObject([{ depth: 0, origin: { via: { depth: 3 } } }]);
  expect(await storeOf(agents[3] as HarnessAgent).tasks({})).toEqual([]);
  await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
});

it("runs on a server that knows its caller as a user, with approvals, steering and blobs by its own id", async () => {
  const reviewer = scripted("reviewer", [
    [{ call: "remove", input: { path: "a" } }],
    "Removed, and reviewed.",
  ]);
  const token = "ann-0123456789abcdef";
  const auth = { tokens: { [token]: { userId: "ann" } } };
  await using far = await serveAgents([reviewer], { auth }, { token });
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(far, "reviewer", { headers: { authorization: `Bearer ${token}` } })],
  });
  const waiting = await lead.call("Go.", { sessionId: "s" });
  const [approval] = waiting.approvals;
  const store = storeOf(lead);
  const [child] = await store.tasks({ parentSessionId: "s" });
  expect(approval?.taskId).toBe(child?.taskId);
  expect(child?.remote?.taskId).toBe(stored(child?.taskId ?? ""));
  const reply = await lead.call(approval?.approve(), { sessionId: "s" });
  expect(reply.text).toBe("Done.");
  const log = await readLog(store, await rootOf(store, "s"));
  expect(JSON.stringify(log)).toContain("Removed, and reviewed.");
  expect(JSON.stringify(log)).not.toContain(stored(""));
  await expectLawful(store, await rootOf(store, "s"));
});
