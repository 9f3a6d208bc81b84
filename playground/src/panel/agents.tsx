import type { Offer, SubagentOffer } from "../state/api.ts";
import { useSessions } from "../state/sessions.ts";

/** The agents on offer, with their subagents, tools and skills. */
export function Agents() {
  const agents = useSessions(({ agents }) => agents);
  const isReady = useSessions(({ status }) => status === "ready");
  return (
    <div className="scroll">
      {agents.map((agent) => (
        <div key={agent.name}>
          <OfferRow offer={agent} names={agent.tools} />
          {agent.subagents?.flatMap(withSubagents).map((subagent) => (
            <OfferRow
              key={subagent.name}
              offer={subagent}
              names={subagent.tools?.map((name) => ({ name }))}
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
      {isReady && agents.length === 0 && <p className="none">The server offers no agent.</p>}
    </div>
  );
}

/** A subagent and, after it, those below it. */
function withSubagents(subagent: SubagentOffer): readonly SubagentOffer[] {
  return [subagent, ...(subagent.subagents ?? []).flatMap(withSubagents)];
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
      {offer.description && <span>{offer.description.replaceAll("`", "")}</span>}
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
