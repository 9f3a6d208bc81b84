import { describe, expect, it } from "vitest";
import { connect } from "../../src/client.ts";
import type { SubagentDeclaration } from "../../src/index.ts";
import { type ScriptedModel, scriptedModel } from "../../src/testing.ts";
import { expectLawful, readLog } from "../agent/support/laws.ts";
import { a2aAnswer, agentScopeAnswer } from "./support/foreign-behaviours.ts";
import { type Behaviour, hostileServer, numbered, type Story } from "./support/hostile-server.ts";
import { rawServer } from "./support/raw-server.ts";
import { rootOf, scripted, spawn, storeOf } from "./support/team.ts";

const secret = "s3cret-of-the-link-0123456789";
const authorization = `Bearer ${secret}`;
const echo = { code: "refused", message: `Got ${authorization}.`, hint: `Not ${secret}!` };

/** Runs a child and returns everything that the parent keeps, sends and prompts. */
async function runWith(far: Partial<SubagentDeclaration>) {
  const model: ScriptedModel = scriptedModel([[spawn("far")], "Done."]);
  const declared = {
    ...{ name: "far", description: "Far.", headers: { authorization } },
    ...{ allowPrivateNetwork: true, limits: { lostAfterMs: 100 }, ...far },
  } as SubagentDeclaration;
  const lead = scripted("lead", [], { model, subagents: [declared] });
  const reply = await lead.call("Go.", { sessionId: "s" });
  const store = storeOf(lead);
  const [child] = await store.tasks({ parentSessionId: "s" });
  const files = await store.files.list("");
  const kept = {
    ...{ reply, files, tasks: await store.tasks({}) },
    log: await readLog(store, await rootOf(store, "s")),
    sessions: await Promise.all(["s", child?.sessionId ?? ""].map((id) => store.session(id))),
    prompts: model.calls.map(({ prompt }) => prompt),
  };
  await expectLawful(store, await rootOf(store, "s"));
  return { child, kept: JSON.stringify(kept) };
}

/** The events of a run that says these pieces. */
function saying(...pieces: readonly string[]): Behaviour {
  return {
    change(story: Story) {
      const said = { type: "text", text: pieces.join(""), annotations: [] };
      const [created, begun, added, opened, delta, , done, item, usage, ended] = story.events;
      const block = item as { item: object };
      const all = [
        ...[created, begun, added, opened],
        ...pieces.map((piece) => ({ ...delta, delta: piece })),
        { ...done, item: said },
        { ...item, item: { ...block.item, block_list: [said] } },
        ...[usage, ended],
      ];
      story.events.splice(0, story.events.length, ...numbered(all.map((one) => one ?? {})));
    },
  };
}

describe("the credential of a link that a server echoes", () => {
  const pieces = [...`The key is ${secret}, as you know.`];
  const behaviours: readonly [string, Behaviour, string][] = [
    [
      "in the error of its start",
      {
        start: (response) =>
          void response
            .writeHead(403, { "content-type": "application/json" })
            .end(JSON.stringify({ error: echo })),
      },
      "refused",
    ],
    ["in a text", saying(`The key is ${secret}, `, "as you know."), "completed"],
    ["in a text, letter by letter", saying(...pieces), "completed"],
    [
      "in a text, in halves",
      saying("It is ", secret.slice(0, 9), secret.slice(9), "s3cret", "-of"),
      "completed",
    ],
    ["in a text, encoded", saying(encodeURIComponent(authorization)), "completed"],
    [
      "in the error of its task",
      {
        change(story) {
          const { taskId: id } = story;
          const [created, begun] = story.events;
          const failed = {
            id,
            object: "task",
            status: "failed",
            completed_at: 2,
            error: { ...echo, retryable: false },
          };
          const last = { type: "task.failed", task_id: id, task: failed };
          story.events.splice(
            0,
            story.events.length,
            ...numbered([created ?? {}, begun ?? {}, last]),
          );
        },
      },
      "refused",
    ],
  ];

  it.each(behaviours)(
    "%s is hidden, with `url` and with `connect`",
    async (_, behaviour, outcome) => {
      const remote = (url: string) => ({ url: `${url}/agents/far` });
      const places: readonly ((url: string) => Partial<SubagentDeclaration>)[] = [
        remote,
        (url) => ({ ...remote(url), headers: async () => ({ "x-key": secret }) }),
        (url) => {
          const agent = connect(url, { token: secret }).agent("far");
          return { agent, headers: undefined, allowPrivateNetwork: undefined, limits: undefined };
        },
      ];
      for (const placeAt of places) {
        await using server = await hostileServer(behaviour);
        const { child, kept } = await runWith(placeAt(server.url));
        expect(child?.error?.code ?? child?.status).toBe(outcome);
        expect(kept).not.toContain(secret);
        expect(kept).not.toContain(encodeURIComponent(authorization));
        expect(kept).toContain("[hidden]");
      }
    },
  );

  it("leaves every other text as it is, also one that only begins like the credential", async () => {
    const texts = [
      "It is s3cret",
      "-of",
      "-the",
      "-lonk. ",
      "s3",
      "cret and Bearer ",
      "s3cret-of-the-l",
    ];
    await using server = await hostileServer(saying(...texts));
    const { child, kept } = await runWith({ url: `${server.url}/agents/far` });
    expect(child?.status).toBe("completed");
    expect(kept).toContain(texts.join(""));
  });

  it("is hidden in answers of AgentScope and A2A servers", async () => {
    const json =
      (body: object, status = 200) =>
      (_: unknown, response: import("node:http").ServerResponse) =>
        void response
          .writeHead(status, { "content-type": "application/json" })
          .end(JSON.stringify(body));
    const answers = [
      agentScopeAnswer({ start: json({ error: echo }, 403) }),
      agentScopeAnswer({ status: json({ status: "error", error: `Got ${authorization}.` }) }),
      agentScopeAnswer({ status: json({ status: "success", result: `Got ${authorization}.` }) }),
    ];
    for (const answer of answers) {
      await using server = await rawServer(answer);
      const { kept } = await runWith({ url: `${server.url}/agents/far`, protocol: "agentscope" });
      expect(kept).not.toContain(secret);
    }
    const artifact = { artifactId: "a", parts: [{ text: `Got ${authorization}.` }] };
    const task = {
      id: "there",
      contextId: "there",
      history: [],
      status: { state: "TASK_STATE_COMPLETED" },
    };
    for (const updates of [[{ task: { ...task, artifacts: [artifact] } }]]) {
      await using server = await rawServer(a2aAnswer({ updates }));
      const { child, kept } = await runWith({ a2a: `${server.url}/card.json` });
      expect(child?.status).toBe("completed");
      expect(kept).toContain("[hidden]");
      expect(kept).not.toContain(secret);
    }
    await using refusing = await rawServer(a2aAnswer({ send: json({ error: echo }, 403) }));
    expect((await runWith({ a2a: `${refusing.url}/card.json` })).kept).not.toContain(secret);
  });

  it("is hidden if it is a part of the address", async () => {
    await using server = await hostileServer({});
    for (const url of [
      `${server.url}/${secret}/agents/far`,
      `http://127.0.0.1:1/${secret}/agents/far`,
    ]) {
      const { kept } = await runWith({ url, headers: {} });
      expect(kept).not.toContain(secret);
      expect(kept).toContain("[hidden]");
    }
    const remote = connect(`http://127.0.0.1:1/${secret}`).agent("far");
    const failure = await remote.approvals({ sessionId: "s" }).catch((error: unknown) => error);
    expect(String(failure)).toContain("does not answer");
    expect(String(failure)).not.toContain(secret);
  });

  it("is hidden in errors of direct calls", async () => {
    await using server = await rawServer((_, response) => {
      response
        .writeHead(403, { "content-type": "application/json" })
        .end(JSON.stringify({ error: echo }));
    });
    const agents = [
      connect(server.url, { token: secret }),
      connect(server.url, { token: async () => secret }),
      connect(server.url, { headers: { "x-key": secret } }),
    ].map((remote) => remote.agent("far"));
    for (const agent of agents) {
      const failure = await agent.call("Go.").catch((error: unknown) => error);
      expect(failure).toMatchObject({ code: "refused", hint: "Not [hidden]!" });
      expect(String(failure)).not.toContain(secret);
    }
  });
});
