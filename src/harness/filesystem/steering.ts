/** The files that the harness reads as instructions and settings, by their names at the root of a workspace. */
export const steering = {
  /** Instructions; those of a directory and of a subagent's definition have the same name. */
  instructions: "AGENTS.md",
  knowledge: "knowledge",
  subagents: "subagents",
  skills: "skills",
  toolsFile: "tools.json",
  /** The workspaces of subagents. */
  agents: "agents",
} as const;

/** The configs of a project, which may have its workspace in the same directory. */
export const configFiles: readonly string[] = ["ts", "mts", "js", "mjs"].map(
  (end) => `rivulet.config.${end}`,
);

/** Files that steer the agent: its tools and commands can read but never write them. */
export const controlFiles: readonly string[] = [...Object.values(steering), ...configFiles];
