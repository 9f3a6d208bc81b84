import { pickAgent, pickedAgent, useSessions } from "./state/sessions.ts";

/** Chooses the agent of the next run; nothing where there is one agent. `children` names it, otherwise it is for screen readers. */
export function AgentPicker({ children }: { readonly children?: React.ReactNode }) {
  const agents = useSessions(({ agents }) => agents);
  const picked = useSessions(pickedAgent);
  if (agents.length < 2 || picked === undefined) return null;
  return (
    <label className="pick">
      <span className={children === undefined ? "vh" : ""}>{children ?? "Agent"}</span>
      <select value={picked.name} onChange={({ target }) => pickAgent(target.value)}>
        {agents.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
