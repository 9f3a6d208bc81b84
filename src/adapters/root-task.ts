import { postCancel } from "../agent/index.ts";
import { type Agent, type Approval, approvalIn, type TaskRecord } from "../contract/index.ts";
import { isTerminal, subtreeOf, type TaskEvent, waitingIn } from "../protocol/index.ts";
import { type Call, ownedBy, unknownAgent } from "../server/index.ts";

/** The last root task of a session of the caller; undefined if there is none. */
export async function lastRootOf(call: Call, sessionId: string): Promise<TaskRecord | undefined> {
  const query = { sessionId, newestFirst: true, limit: 1 } as const;
  const [root] = await call.services.store.tasks(query);
  return root?.userId === call.caller.userId ? root : undefined;
}

/** The approvals that a root task and its descendants wait for. */
export async function waitingBelow(
  { services }: Pick<Call, "services">,
  rootTaskId: string,
): Promise<readonly Approval[]> {
  const { tree } = await services.trees.read(rootTaskId);
  return subtreeOf(tree, rootTaskId).flatMap((task) =>
    waitingIn(task).map((state) => approvalIn(task, state, rootTaskId)),
  );
}

/** The agent that a request names; without a name, the one that the session has, else the first one. */
export function agentNamed(
  { services }: Pick<Call, "services">,
  name: string | undefined,
  last?: TaskRecord,
): Agent {
  const [first] = services.agents.keys();
  const wanted = name ?? last?.agentName ?? first ?? "";
  const agent = services.agents.get(wanted);
  if (agent === undefined) throw unknownAgent(wanted, services.agents);
  return agent;
}

/** Cancels a root task with its descendants, wherever it runs; false if it has ended. */
export async function cancelRoot(call: Call, root: TaskRecord | undefined): Promise<boolean> {
  if (root === undefined || isTerminal(root.status)) return false;
  const { services, caller } = call;
  const { taskId } = root;
  await postCancel(services.store, taskId, "stopped");
  const run = agentNamed(call, root.agentName).attach?.({ taskId }, ownedBy(caller));
  if (run) services.background(Promise.all([run.cancel("stopped"), run.result()]));
  return true;
}

/** The events of a root task after a number, by default from the beginning of its log, to its next rest. */
export function eventsOf(
  call: Call,
  agent: Agent,
  taskId: string,
  after = -1,
): AsyncIterable<TaskEvent> {
  const options = { ...ownedBy(call.caller), until: "root" } as const;
  const run = agent.attach?.({ taskId }, options);
  if (run === undefined) throw unknownAgent(agent.name, call.services.agents);
  call.services.background(run.result());
  return run.events({ after, until: "root" });
}
