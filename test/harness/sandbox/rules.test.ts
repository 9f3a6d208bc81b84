import { describe, expect, it } from "vitest";
import { decide } from "../../../src/agent/tool/permission.ts";
import { seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
import { deep } from "../filesystem/support/temporary.ts";
import { createSandbox, hasBubblewrap } from "./support/sandbox.ts";

const fragments = [
  ...["ok", "ok", "ok", "bad", "bad", "x", " ", " ", " ", "  ", "\t", "\n", "\\\n"],
  ...[";", "&&", "||", "|", "&", "|&", ";;", "(", ")", "{", "}", "((", "))", "!", "#"],
  ...["$", "$(", "`", "'", '"', "\\", "$'", '$"', "${x:-", "$x", "\\x62ad", "{bad,x}", "{", ","],
  ...[">", "<", ">>", "<<", "<<<", ">&", "&>", "<(", ">(", "2>&1", ">/dev/null", "EOF", "out"],
  ...["eval", "exec", "env", "command", "bash -c", "sh -c", "xargs", "if", "then", "fi", "do"],
  ...["while", "for", "in", "case", "esac", "function", "f()", "time", "[[", "]]", "b*", "b?d"],
  ...[
    "x=bad",
    "PATH=.",
    "alias",
    "-",
    "--",
    "*",
    "?",
    "[b]ad",
    "~",
    "=",
    "+=",
    "\r",
    "\u00a0",
    "@",
  ],
];

describe.runIf(hasBubblewrap)("an allow rule on commands", () => {
  it("never lets a script run another command, as bash itself reads the script", async () => {
    const random = seededRandom(seed);
    const count = deep ? 100_000 : 8_000;
    const allowed = new Set<string>();
    for (let index = 0; index < count; index++) {
      const parts = Array.from({ length: random.int(1, 8) }, () => random.pick(fragments));
      const script = `${random.chance(0.7) ? "ok " : ""}${parts.join(random.chance(0.5) ? " " : "")}`;
      const allow = [{ tool: "execute", command: "ok *" }];
      if (decide([{ allow }], "execute", { command: script }) === "allow") allowed.add(script);
    }
    console.log(`${allowed.size} of ${count} generated scripts are allowed (seed ${seed})`);
    expect(allowed.size).toBeGreaterThan(100);
    const files = await createSandbox();
    await files.write("bin/ok", "#!/bin/sh\nexit 0\n");
    await files.write("bin/bad", "#!/bin/sh\n: > /tmp/bad\n");
    await files.write("scripts", [...allowed].map((script) => `${script}\0`).join(""));
    const driver = `chmod +x bin/*; export PATH=/workspace/bin; mkdir() { /bin/mkdir "$@"; }
      mkdir -p /tmp/work && cd /tmp/work
      while IFS= read -r -d '' script; do
        /bin/bash -c "$script" </dev/null >/dev/null 2>&1
        if [ -e /tmp/bad ] || [ -n "$(/bin/ls -A)" ]; then
          printf 'ran: %q\\n' "$script"; /bin/rm -rf /tmp/bad /tmp/work/*
        fi
      done < /workspace/scripts; echo checked`;
    const { output } = await files.shell.run(driver, { timeoutMs: 300_000 });
    expect(output).toBe("checked\n");
  }, 300_000);
});
