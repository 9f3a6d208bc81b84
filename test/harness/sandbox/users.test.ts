import { spawnSync } from "node:child_process";
import { chown } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { HarnessAgent, memoryStore } from "../../../src/index.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { scriptedModel } from "../../../src/testing.ts";
import { createSandbox, hasBubblewrap, workspaceDirectory } from "./support/sandbox.ts";

const jails = [...(hasBubblewrap ? (["bubblewrap"] as const) : []), "just-bash"] as const;

describe.each(jails)("sessions of several users in %s", (jail) => {
  it("never see what another user wrote, and all read the common files", async () => {
    const count = isDeep || jail === "bubblewrap" ? 50 : 10;
    const users = ["ann", "bob", "cy", "dee", "eve"];
    const files = await createSandbox({ jail });
    await files.write("common.txt", "common-canary\n");
    const plan = Array.from({ length: count }, (_, index) => ({
      sessionId: `s${index}`,
      userId: users[index % users.length] as string,
      canary: `canary-${users[index % users.length]}-${index}`,
    }));
    const found = await Promise.all(
      plan.map(async ({ sessionId, userId, canary }) => {
        const model = scriptedModel([
          [
            { call: "write_file", input: { path: `${sessionId}/tool.txt`, content: canary } },
            {
              call: "execute",
              input: {
                command: `echo ${canary} > ${sessionId}/shell.txt; echo x >> common.txt; cat common.txt > /tmp/c; cat */*.txt common.txt /tmp/*; ls -A . /tmp .rivulet`,
              },
            },
            { call: "grep_files", input: { pattern: "canary", literal: true } },
          ],
          "done",
        ]);
        const agent = new HarnessAgent({
          ...{ name: "lead", model, store: memoryStore(), subagents: false as const },
          filesystem: files,
        });
        await agent.call("go", { sessionId, userId });
        return { userId, canary, text: JSON.stringify(model.calls.at(-1)?.prompt) };
      }),
    );
    for (const { userId, canary, text } of found) {
      expect(text).toContain(canary);
      expect(text).toContain("common-canary");
      const owners = [...text.matchAll(/canary-([a-z]+)-\d+/g)].map(([, owner]) => owner);
      expect([...new Set(owners)]).toEqual([userId]);
    }
    expect(Buffer.from((await files.read("common.txt")).data).toString()).toBe("common-canary\n");
    expect((await files.list("")).entries.map(({ path }) => path)).toEqual(["common.txt"]);
  }, 120_000);
});

describe.runIf(hasBubblewrap)("the user of a sandbox", () => {
  it("can be one without privileges", async ({ skip }) => {
    if (process.getuid?.() !== 0) return skip("the whole suite runs as such a user");
    const root = await workspaceDirectory();
    await chown(root, 65_534, 65_534);
    const script = "id -u; cat common.txt; echo own > own.txt; ls; grep ^Cap /proc/self/status";
    const program = join(import.meta.dirname, "support/command-process.ts");
    const { stdout, stderr, error } = spawnSync(process.execPath, [program, root, script], {
      ...{ uid: 65_534, gid: 65_534, cwd: "/", env: { HOME: "/tmp" }, encoding: "utf8" },
    });
    if (error || /EACCES|ERR_MODULE_NOT_FOUND|Permission denied/.test(stderr))
      return skip(
        `the user nobody cannot read the sources: ${error?.message ?? stderr.slice(0, 200)}`,
      );
    const { jail, warnings, result } = JSON.parse(stdout);
    if (jail !== "bubblewrap") return skip(warnings.join(" "));
    expect(result.output).toMatch(/^1000\ncommon\n/);
    expect(result.output).toContain("own.txt");
    expect(result.output).toMatch(/CapEff:\s+0+\n/);
  });

  it("is not root when the process is root", async ({ skip }) => {
    if (process.getuid?.() !== 0) return skip("the process is not root");
    const files = await createSandbox();
    const { output } = await files.shell.run("cat /proc/self/uid_map");
    expect(output).toMatch(/^\s*1000\s+\d+\s+1\n$/);
    expect((await files.shell.run("touch mine; stat -c %u mine")).output).toBe("1000\n");
  });
});
