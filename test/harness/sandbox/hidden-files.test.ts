import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { JailKind } from "../../../src/harness/sandbox/jail.ts";
import { agentWith, toolTexts } from "../agent/support/agent.ts";
import { createSandbox, hasBubblewrap } from "./support/sandbox.ts";

const jails: readonly JailKind[] = hasBubblewrap ? ["bubblewrap", "just-bash"] : ["just-bash"];
const secret = "the-launch-code";
const deny = ["secret/*", "*.pem", "skills/*/private.txt"].map((path) => ({
  tool: "read_file",
  input: { path },
}));

describe.each(jails)("a file that a rule denies, in %s", (jail) => {
  const paths = ["secret/key.txt", "secret/deep/er.txt", "app/id.pem", "skills/a/private.txt"];
  const tries = [
    "cat secret/key.txt secret/deep/er.txt app/id.pem skills/a/private.txt",
    "grep -r launch . ",
    "cp app/id.pem open.txt; cat open.txt",
    "mv secret open; cat open/key.txt; mv app shown; cat shown/id.pem",
    "ln app/id.pem open.txt; cat open.txt",
    "ln -s secret/key.txt open.txt; cat open.txt",
  ];
  it.each([{}, { userId: "ann" }])("cannot be read by commands, called with %j", async (caller) => {
    const files = await createSandbox({ jail });
    for (const path of [...paths, "app/code.ts"]) {
      mkdirSync(join(files.root, path, ".."), { recursive: true });
      writeFileSync(join(files.root, path), path === "app/code.ts" ? "code\n" : `${secret}\n`);
    }
    const run = (command: string) => [{ call: "execute", input: { command } }];
    const { agent, model } = agentWith(
      [
        ...tries.map(run),
        run("cat app/code.ts"),
        [{ call: "grep_files", input: { pattern: "." } }],
        "ok",
      ],
      { filesystem: files, permissions: { deny } },
    );
    expect((await agent.call("Look.", caller)).text).toBe("ok");
    const last = model.calls.at(-1);
    expect(toolTexts(last)).toHaveLength(tries.length + 2);
    expect(JSON.stringify(last?.prompt)).not.toContain(secret);
    expect(toolTexts(last)[tries.length]).toContain("code");
    for (const path of paths) {
      expect(readFileSync(join(files.root, path), "utf8"), path).toBe(`${secret}\n`);
    }
  });
});
