// Skills: a directory with instructions that the agent loads when a task needs them. Run it with: npm run example 15
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { HarnessAgent, tool } from "rivulet";
import { type ScriptedRequest, scriptedModel } from "rivulet/testing";

const workspace = mkdtempSync(join(tmpdir(), "rivulet-"));
const write = (path: string, text: string) => {
  const file = join(workspace, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
};
write(
  "skills/baking/SKILL.md",
  `---
name: baking
description: Bakes bread and cakes. Use it for every recipe.
allowed-tools: set_oven Write
---
Look the temperature up in references/ovens.md, set the oven, then write the recipe to recipe.md.
`,
);
write(
  "skills/baking/references/ovens.md",
  "- rye bread: 250 degrees\n- sponge cake: 180 degrees\n",
);
write("skills/broken/SKILL.md", "This file has no front matter.\n");

const done: string[] = [];
const setOven = tool({
  name: "set_oven",
  description: "Sets the temperature of the oven.",
  execute: () => void done.push("oven"),
});
const order = tool({
  name: "order_pizza",
  description: "Orders a pizza.",
  execute: () => void done.push("pizza"),
});

const promptOf = ({ prompt }: ScriptedRequest) => JSON.stringify(prompt);
const warnings: string[] = [];
const agent = new HarnessAgent({
  name: "cook",
  workspace,
  store: "memory",
  tools: [setOven, order],
  onWarning: (message) => warnings.push(message),
  model: scriptedModel([
    // The prompt has the description of the skill, and not its instructions.
    (request) => {
      assert.match(promptOf(request), /baking: Bakes bread and cakes/);
      assert.doesNotMatch(promptOf(request), /Look the temperature up/);
      return { call: "load_skill", input: { name: "baking" } };
    },
    (request) => {
      assert.match(promptOf(request), /Look the temperature up/);
      return { call: "load_skill", input: { name: "baking", path: "references/ovens.md" } };
    },
    // The skill allows set_oven and write_file, and no pizza.
    [{ call: "set_oven" }, { call: "order_pizza" }],
    (request) => {
      assert.match(promptOf(request), /order_pizza with this input was not run/);
      return { call: "write_file", input: { path: "recipe.md", content: "Rye, 250 degrees." } };
    },
    "The oven is at 250 degrees, and recipe.md says the rest.",
  ]),
});

const skills = await agent.skills();
console.log(
  `skills: ${skills.map(({ name, description }) => `${name} (${description})`).join(", ")}`,
);
console.log(`warning: ${warnings[0]}`);
const reply = await agent.call("I want to bake rye bread.", { userId: "ann" });
console.log(`cook: ${reply.text}`);

assert.deepEqual(
  skills.map(({ name }) => name),
  ["baking"],
);
assert.match(warnings[0] ?? "", /skills\/broken\/SKILL\.md is skipped: SKILL\.md must start with/);
assert.deepEqual(done, ["oven"]);
rmSync(workspace, { recursive: true });
console.log("All checks passed.");
