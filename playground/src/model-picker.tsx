import { currentAgent, pickedModel, pickModel, useSessions } from "./state/sessions.ts";

/** Chooses the model of the next run; nothing where the agent allows only its own. */
export function ModelPicker() {
  const models = useSessions((sessions) => currentAgent(sessions)?.models);
  const picked = useSessions(pickedModel);
  if (models === undefined) return null;
  return (
    <label className="pick model">
      <span className="vh">Model</span>
      <select value={picked} onChange={({ target }) => pickModel(target.value)}>
        {models.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}
