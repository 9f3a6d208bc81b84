import { describe, expect, it } from "vitest";
import type { JailKind } from "../../../src/harness/sandbox/jail.ts";
import { agentWith, toolTexts } from "../agent/support/agent.ts";
import { hasBubblewrap, workspacesIn } from "./support/sandbox.ts";

const jails: readonly JailKind[] = hasBubblewrap ? ["bubblewrap", "just-bash"] : ["just-bash"];
const secret = "the-launch-code";
const deny = ["secret/*", "*.pem", "skills/*/private.txt"].map((path) => ({
  tool: "read_file",
  input: { path },
}));

describe.each(workspacesIn(jails))("a file that a rule denies, in $name", ({ create }) => {
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
    const { files, put, text } = await create();
    for (const path of paths) await put(path, `${secret}\n`);
    await put("app/code.ts", "code\n");
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
      expect(await text(path), path).toBe(`${secret}\n`);
    }
  });
});
