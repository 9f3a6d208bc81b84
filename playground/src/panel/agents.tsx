import type { Offer } from "../state/api.ts";
import { useSessions } from "../state/sessions.ts";

/** The agents on offer, with their subagents, tools and skills. */
export function Agents() {
  const agents = useSessions(({ agents }) => agents);
  return (
    <div className="scroll">
      {agents.map((agent) => (
        <div key={agent.name}>
          <OfferRow offer={agent} names={agent.tools} />
          {agent.subagents?.map((subagent) => (
            <OfferRow
              key={subagent.name}
              offer={subagent}
              names={subagent.tools?.map((tool) =>
                typeof tool === "string" ? { name: tool } : tool,
              )}
            />
          ))}
          {(agent.skills?.length ?? 0) > 0 && (
            <>
              <h2>Skills</h2>
              {agent.skills?.map((skill) => (
                <OfferRow key={skill.name} offer={skill} />
              ))}
            </>
          )}
        </div>
      ))}
      {agents.length === 0 && <p className="none">The server offers no agent.</p>}
    </div>
  );
}

function OfferRow({
  offer,
  names,
}: {
  readonly offer: Offer;
  readonly names?: readonly Offer[] | undefined;
}) {
  return (
    <div className="offer">
      <b>{offer.name}</b>
      {offer.description && <span>{offer.description}</span>}
      {names && names.length > 0 && (
        <span className="names">
          {names.map(({ name, description }) => (
            <code key={name} title={description}>
              {name}
            </code>
          ))}
        </span>
      )}
    </div>
  );
}
