import { Icon } from "./icons.tsx";
import { ask, pickedAgent, useSessions } from "./state/sessions.ts";
import { showError } from "./state/ui.ts";

/** Questions for the sample workspace; each shows another thing. */
const suggestions = [
  {
    question: "How do river deltas form, and why are many of them shrinking?",
    about: "Two researchers in parallel, a critic inside each, sources to the line",
    glyph: "M7 2v32M7 8c0 8 10 4 10 12v14M7 8c0 8 17 4 17 12v14",
  },
  {
    question: "Write a report on beavers and publish it.",
    about: "Stops for your approval, with the full arguments",
    glyph: "M7 2v32M7 8c0 8 10 4 10 12v14",
  },
  {
    question: "What do the articles say about dams, floods and wetlands?",
    about: "Three researchers at once, one row each",
    glyph: "M5 2v32M5 8c0 8 7 4 7 12v14M5 8c0 8 13 4 13 12v14M5 8c0 8 19 4 19 12v14",
  },
  {
    question: "How do salmon find their way home?",
    about: "Press k while it writes: the server dies, and every agent continues",
    glyph: "M7 2v12M3 14h8M3 22h8M7 22v12",
  },
];

/** The page before the first question. */
export function Start() {
  const agent = useSessions(pickedAgent);
  // The questions fit the articles of the sample.
  const isSample = agent?.name === "lead" && agent.workspace === "sample";
  const isOffline = agent?.model?.startsWith("demo:");
  return (
    <div className="talk">
      <div className="hero">
        <h2>
          Ask a question.
          <br />
          Read every agent as it writes.
        </h2>
        <p>
          {isSample
            ? `The sample workspace has 15 articles about rivers.${isOffline ? " The built-in model needs no key and no network." : ""}`
            : (agent?.description ?? "Ask the agent of this server.")}
        </p>
        {isSample &&
          suggestions.map(({ question, about, glyph }) => (
            <button
              key={question}
              type="button"
              className="sug"
              onClick={() => ask(question).catch(showError)}
            >
              <svg className="glyph" viewBox="0 0 28 36" aria-hidden="true">
                <path
                  d={glyph}
                  fill="none"
                  stroke="currentColor"
                  strokeWidth="2"
                  strokeLinecap="round"
                />
              </svg>
              <b>{question}</b>
              <span>{about}</span>
              <span className="go2">
                <Icon name="arrow" />
              </span>
            </button>
          ))}
      </div>
    </div>
  );
}
