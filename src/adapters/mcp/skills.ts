import type { McpServer } from "@modelcontextprotocol/server";
import { SkillsExtension } from "@modelcontextprotocol/server/ext/skills";
import type { McpSkill } from "./offer.ts";

const root = "skill://";
const file = "SKILL.md";
const mimeType = "text/markdown";
const uriOf = ({ name }: McpSkill) => `${root}${name}/${file}`;

/** Adds the skills of the agents: `skill://<name>/SKILL.md`, and the methods of the skills extension. */
export function addSkills(mcp: McpServer, list: () => Promise<readonly McpSkill[]>): void {
  const entryOf = (skill: McpSkill) => {
    const { name, description } = skill;
    return { uri: uriOf(skill), frontmatter: { name, description }, resources: "dynamic" as const };
  };
  const find = async (uri: string) => (await list()).find((skill) => uriOf(skill) === uri);
  const source = {
    list: async () => ({ skills: (await list()).map(entryOf) }),
    async get(uri: string) {
      const skill = await find(uri);
      return skill && entryOf(skill);
    },
    async read(uri: string) {
      const skill = await find(uri);
      return skill && { text: await skill.read(), mimeType };
    },
    listResources: async () =>
      (await list()).map((skill) => {
        const { name, description } = skill;
        return { uri: uriOf(skill), name, description, mimeType };
      }),
  };
  new SkillsExtension({ source, onWarning: () => {} }).attach(mcp);
}
