import { describe, expect, it } from "vitest";
import { decide } from "../../../src/agent/tool/permission.ts";
import { isDeep } from "../../../src/testing/deep.ts";
import { seededRandom } from "../../support/random.ts";
import { seed } from "../../support/seed.ts";
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

/** Ways to give commands to an interpreter. */
const feeding = [
  ...["bash", "sh", "dash -s", "<<< 'bad'", "<<< bad", "< cmd", "cmd", "echo bad |", "cat cmd |"],
  ...[
    "bash -c",
    "sh -ec",
    "-c",
    "'bad'",
    '"bad"',
    "'bad x'",
    "eval",
    "source",
    ".",
    "trap",
    "EXIT",
  ],
  ...[
    "xargs",
    "xargs -I{}",
    "{}",
    "env",
    "env -S",
    "timeout 5",
    "nice",
    "command",
    "builtin",
    "exec",
  ],
  ...["find . -maxdepth 0 -exec", "\\;", "'a[$(bad)]'", "'a[`bad`]'", "'a[$(bad)]=1'", "printf -v"],
  ...["read", "declare", "typeset -i", "let", "unset", "test -v", "[[ -v", "]]", "[ -v", "export"],
  ...[
    "x='bad'",
    "x='a[$(bad)]'",
    "$x",
    '"$x"',
    "$((x))",
    "BASH_ENV=cmd",
    "PS4='$(bad)'",
    "bash -xc ok",
  ],
  ...["mapfile -C", "-c 1 y", "compgen -C", "awk 'BEGIN{system(\"bad\")}'", "sed '1e bad' cmd"],
  ...["sed s/bad/bad/e cmd", "perl -e 'system(bad)'", "<<EOF\nbad\nEOF\n", "hash -p bin/bad ok;"],
  ...["alias ok=bad;", "enable -n", "f() { bad; }; f", "coproc", "!", "ok", "ok;", "ok |", "y=1"],
];

/** Writes the programs `ok` and `bad`, runs scripts with bash, and lists those that ran `bad` or left a file. */
async function ranBad(scripts: ReadonlySet<string>, path: string): Promise<string> {
  const files = await createSandbox();
  await files.write("bin/ok", "#!/bin/sh\nexit 0\n");
  await files.write("bin/bad", "#!/bin/sh\n: > /tmp/bad\n");
  await files.write("scripts", [...scripts].map((script) => `${script}\0`).join(""));
  const driver = `chmod +x bin/*; export PATH=${path}; unset HISTFILE
    /bin/mkdir -p /tmp/box && cd /tmp/box
    while IFS= read -r -d '' script; do
      echo bad > /tmp/box/cmd
      /bin/bash -c "$script" </dev/null >/dev/null 2>&1
      /bin/rm -f /tmp/box/cmd
      if [ -e /tmp/bad ]; then printf 'ran: %q\\n' "$script"; fi
      if [ -n "$(/bin/ls -A)" ]; then printf 'left a file: %q\\n' "$script"; fi
      /bin/rm -rf /tmp/bad /tmp/box/*
    done < /workspace/scripts; echo checked`;
  const { output } = await files.shell.run(driver, { timeoutMs: 300_000 });
  return output;
}

describe.runIf(hasBubblewrap)("an allow rule on commands", () => {
  it("never lets a script run another command, as bash itself reads the script", async () => {
    const random = seededRandom(seed);
    const count = isDeep ? 100_000 : 3_000;
    const allowed = new Set<string>();
    for (let index = 0; index < count; index++) {
      const parts = Array.from({ length: random.int(1, 8) }, () => random.pick(fragments));
      const script = `${random.chance(0.7) ? "ok " : ""}${parts.join(random.chance(0.5) ? " " : "")}`;
      const allow = [{ tool: "execute", command: "ok *" }];
      if (decide([{ allow }], "execute", { command: script }) === "allow") allowed.add(script);
    }
    console.log(`${allowed.size} of ${count} generated scripts are allowed (seed ${seed})`);
    expect(allowed.size).toBeGreaterThan(100);
    expect(await ranBad(allowed, "/workspace/bin")).toBe("checked\n");
  }, 300_000);
});

describe.runIf(hasBubblewrap)("a deny rule on commands", () => {
  it("never lets a script run its command unasked, as bash itself runs the script", async () => {
    const random = seededRandom(seed);
    const count = isDeep ? 200_000 : 2_000;
    const unrestricted = new Set<string>();
    for (let index = 0; index < count; index++) {
      const from = random.chance(0.6) ? feeding : fragments;
      const parts = Array.from({ length: random.int(1, 5) }, () => random.pick(from));
      const script = parts.join(random.chance(0.8) ? " " : "");
      const deny = [{ tool: "execute", command: "bad" }];
      if (decide([{ deny }], "execute", { command: script }) === undefined)
        unrestricted.add(script);
    }
    console.log(`${unrestricted.size} of ${count} generated scripts run unasked (seed ${seed})`);
    expect(unrestricted.size).toBeGreaterThan(100);
    const output = await ranBad(unrestricted, "/workspace/bin:/usr/bin:/bin");
    const ran = output.split("\n").filter((line) => /^ran: /.test(line));
    expect(ran).toEqual([]);
    expect(output).toContain("checked");
  }, 300_000);
});
