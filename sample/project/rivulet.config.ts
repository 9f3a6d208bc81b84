import { createTeam } from "./team.ts";

// The offline model needs no API key. Set RIVULET_MODEL to use another, such as openai:gpt-5-mini.
const model = process.env.RIVULET_MODEL ?? "demo:analyst";

export default { agents: [createTeam({ model })] };
