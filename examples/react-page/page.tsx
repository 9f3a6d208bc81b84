// A chat page: the questions of a session, the trees of agents that answer them, and their approvals.
import { createRoot } from "react-dom/client";
import { connect, type RemoteRun } from "rivulet/client";
import { textOf } from "rivulet/protocol";
import { useApprovals, useSession, useTask } from "rivulet/react";

const server = connect(location.origin); // the page's cookie is the credential
location.hash ||= crypto.randomUUID(); // a reload opens the same session

function Task({ run, id }: { run: RemoteRun; id?: string }) {
  const { agentId, status, output = [], children = [] } = useTask(run, id) ?? {};
  const blocks = output.flatMap((item) => (item.type === "message" ? item.block_list : []));
  const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join("");
  const nested = children.map((child) => <Task key={child} run={run} id={child} />);
  return <section title={`${agentId}: ${status}`}>{[nested, text]}</section>;
}

function Page() {
  const { runs, run, send } = useSession(server, "lead", location.hash.slice(1));
  const said = runs.map(({ input, run }, at) => (
    <article key={at.toString()}>
      {input.map(({ id, content }) => (
        <p key={id}>{textOf(content)}</p>
      ))}
      <Task run={run} />
    </article>
  ));
  const buttons = useApprovals(run).map((approval) => {
    const allow = () => run?.answer(approval.approve());
    return <input key={approval.id} type="button" value={approval.call.name} onClick={allow} />;
  });
  const onSend = (form: FormData) => void send(String(form.get("text")));
  return <form action={onSend}>{[said, buttons, <input key="text" name="text" />]}</form>;
}

createRoot(document.body).render(<Page />);
