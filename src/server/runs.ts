import type { TaskHandle } from "../agent/index.ts";
import type { Agent, Input, RunOptions, StandardSchema } from "../contract/index.ts";
import type { Call } from "./route.ts";

/** The options of a run, without what the server sets itself. */
type Options = Omit<RunOptions<StandardSchema | undefined>, "userId" | "signal">;

/**
 * Starts or continues a run for the caller: every protocol does it here, within the limits of the user. `continues` is
 * the root task that the input is for, if it exists.
 */
export async function beginRun(
  {
    services,
    caller,
    request,
  }: Pick<Call, "services" | "caller"> & { readonly request: Pick<Request, "signal"> },
  agent: Agent,
  input: Input,
  options: Options,
  continues?: string,
): Promise<TaskHandle<unknown>> {
  const { limits } = services;
  const { userId } = caller;
  const place =
    continues === undefined
      ? await limits.start(userId, request.signal)
      : limits.resume(userId, continues);
  let run: TaskHandle<unknown>;
  try {
    run = agent.run(input, {
      ...options,
      ...(userId !== undefined && { userId }),
    }) as TaskHandle<unknown>;
  } catch (error) {
    place.leave();
    throw error;
  }
  const rested = run.result().then(
    ({ approvals, task }) =>
      place.leave({ taskId: task.rootTaskId, isWaiting: approvals.length > 0 }),
    () => place.leave(),
  );
  services.background(rested);
  await run.task;
  return run;
}
