// Counts the renders of one component per task.
import { memo, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { connect, type RemoteRun } from "../../src/client.ts";
import { useConnection, useTask } from "../../src/react.ts";

const renders: Record<string, number> = {};
const statuses: (string | undefined)[] = [];
Object.assign(globalThis, { renders, statuses });

// Without `memo` a component also renders with its parent.
const Shown = memo(function ShownTask({ run, id }: { run: RemoteRun; id?: string }) {
  const task = useTask(run, id);
  const key = id ?? "root";
  renders[key] = (renders[key] ?? 0) + 1;
  const results = task?.output.flatMap((item) => ("block_list" in item ? item.block_list : []));
  const text = results?.map((block) => (block.type === "text" ? block.text : "")).join("");
  const children = task?.children.map((child) => <Shown key={child} run={run} id={child} />);
  return (
    <section title={`${task?.agentId}: ${task?.status}`} data-task={key}>
      {text}
      {children}
    </section>
  );
});

function State({ run }: { run: RemoteRun }) {
  const status = useConnection(run)?.status;
  statuses.push(status);
  return <p>{status}</p>;
}

const run = connect(location.origin).agent("lead").run("Go.");
createRoot(document.body).render(
  <StrictMode>
    <Shown run={run} />
    <State run={run} />
  </StrictMode>,
);
