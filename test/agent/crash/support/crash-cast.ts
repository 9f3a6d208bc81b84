import { z } from "zod";
import {
  type Answer,
  type Approval,
  agentTool,
  ReActAgent,
  type Reply,
  type Store,
  type ToolContext,
  tool,
} from "../../../../src/index.ts";
import { isTerminal } from "../../../../src/protocol/task.ts";
import { scriptedModel } from "../../../../src/testing.ts";
import { noteExecution } from "../../../support/executions.ts";
import { turns } from "../../support/tools.ts";

/** The conversation that is killed. */
export const sessionId = "session";

/** Tools that may be executed again after a crash. */
export const repeatable: ReadonlySet<string> = new Set(["look", "sign"]);

const number = z.object({ n: z.number() });

/** The casts of these tests, by name. */
export const casts = { steps: crashCast, children: childrenCast };
export type CastName = keyof typeof casts;

/**
 * Agents whose models say what the transcript calls for: the root takes more than twenty steps, with every kind of
 * call in them, alone and side by side.
 */
export function crashCast(store: Store, folder: string): ReActAgent {
  const tools = [
    ...notingTools(folder),
    tool({ name: "outside", description: "Runs elsewhere.", input: number }),
  ];
  const helper = new ReActAgent({
    name: "helper",
    model: scriptedModel(
      [[{ thinking: "Which?" }, call("look", 101), call("pay", 102)], call("pay", 103), "Helped."],
      { by: "prompt" },
    ),
    tools,
    store,
  });
  const clerk = new ReActAgent({
    name: "clerk",
    model: scriptedModel([call("transfer", 201), call("sign", 202), "Filed."], { by: "prompt" }),
    tools,
    store,
  });
  return new ReActAgent({
    name: "lead",
    model: scriptedModel(
      [
        [{ thinking: ["Let me ", "see."] }, { text: ["I shall ", "look."] }, call("look", 1)],
        call("pay", 2),
        [call("look", 3), call("pay", 4)],
        { call: "helper", input: { prompt: "Help." } },
        call("transfer", 5),
        [call("pay", 6), { call: "clerk", input: { prompt: "File." } }, call("look", 7)],
        [call("sign", 8), call("transfer", 9), call("pay", 10)],
        call("outside", 11),
        [{ call: "helper", input: { prompt: "Once more." } }, call("outside", 12)],
        call("pay", 13),
        { text: ["All ", "is ", "done. [^1]"] },
      ],
      { by: "prompt" },
    ),
    tools: [...tools, agentTool(helper), agentTool(clerk)],
    store,
    maxIters: 20,
  });
}

/** A lead with fifty children that stream into its log side by side. */
function childrenCast(store: Store, folder: string): ReActAgent {
  const tools = notingTools(folder);
  const streamed = Array.from({ length: 10 }, (_, n) => [{ text: `Word ${n} ` }, { delayMs: 2 }]);
  const helper = new ReActAgent({
    name: "helper",
    model: scriptedModel(
      [[...streamed.flat(), call("look", 1), call("pay", 2)], { text: ["Hel", "ped."] }],
      { by: "prompt" },
    ),
    tools,
    store,
  });
  const calls = Array.from({ length: 50 }, () => ({ call: "helper", input: { prompt: "Help." } }));
  return new ReActAgent({
    name: "lead",
    model: scriptedModel([calls, "All is done."], { by: "prompt" }),
    tools: [agentTool(helper)],
    store,
  });
}

function call(name: string, n: number) {
  return { call: name, input: { n } };
}

/** Tools that record their executions. */
function notingTools(folder: string) {
  async function execute(name: string, n: number, context: ToolContext): Promise<string> {
    const { callId, messages } = context;
    const isRecorded = messages.some(({ content }) =>
      content.some((block) => block.type === "tool_result" && block.id === callId),
    );
    noteExecution(folder, { name, callId, isRecorded });
    context.emit(`${name} `);
    await turns(2);
    context.emit(`${n}`);
    return `${name} ${n}`;
  }
  const make = (name: string, needsApproval: boolean) =>
    tool({
      name,
      description: `Does ${name}.`,
      input: number,
      needsApproval,
      idempotent: repeatable.has(name),
      citable: name === "look",
      execute: ({ n }, context) => execute(name, n, context),
    });
  return [make("look", false), make("pay", false), make("sign", true), make("transfer", true)];
}

/** What people say to an approval. */
function answerTo(approval: Approval): Answer {
  if (approval.kind === "external") return approval.answer("from outside");
  return approval.approve();
}

/** Begins the conversation or goes on with it, whatever the last process left behind, and answers all that it asks. */
export async function driveToEnd(agent: ReActAgent, store: Store): Promise<void> {
  const [root] = await store.tasks({ sessionId });
  if (root && isTerminal(root.status)) return;
  let reply: Reply = await agent.call(root === undefined ? "Go." : undefined, { sessionId });
  while (reply.approvals.length > 0) {
    reply = await agent.call(reply.approvals.map(answerTo), { sessionId });
  }
}

/** The store of a process that may die: its leases end at once, so that the next one need not wait ten seconds. */
export function withShortLeases(store: Store): Store {
  return {
    ...store,
    acquire: (id, owner) => store.acquire(id, owner, 0),
    renew: (leases) => store.renew(leases, 0),
  };
}
