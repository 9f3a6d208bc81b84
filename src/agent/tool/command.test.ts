import { describe, expect, it } from "vitest";
import {
  decide,
  isAlwaysAllowed,
  type Permissions,
  permissionsHint,
  permissionsProblem,
} from "./permission.ts";

const execute = (command: string) => ({ tool: "execute", command });
const rules: Permissions = {
  allow: [execute("git status"), execute("git log *"), execute("ls *"), execute("cat ?*.md")],
  ask: [execute("rm"), execute("git push")],
  deny: [execute("shutdown"), execute("git push --force")],
};
const decision = (command: string) => decide([rules], "execute", { command });

describe("rules on commands", () => {
  it.each([
    "git status",
    "  git   status  ",
    '"git" status',
    "git 'status'",
    "git status; ls -la && git log --oneline -5",
    "git status | ls",
    "git status 2>&1",
    "git status > /dev/null 2>&1",
    "git status # a comment; rm -rf .",
    "git status \\\n",
    "ls *.ts",
    "ls",
    "git log",
    "cat a.md",
    "git status\nls",
    "ls 'a;b' \"c|d\" e\\&f",
  ])("allows %j", (command) => {
    expect(decision(command)).toBe("allow");
  });

  it.each([
    "git status; rm -rf .",
    "git status && rm x",
    "git status || rm x",
    "git status & rm x",
    "git status\nrm x",
    "git status | rm x",
    "git status |& rm x",
    "rm -rf .",
    "/bin/rm x",
    "/usr/bin/../bin/rm x",
    "\\rm x",
    "'rm' x",
    'r"m" x',
    "env X=1 rm x",
    "X=1 rm x",
    "env -i PATH=/bin rm x",
    "bash -c 'rm x'",
    'sh -c "ls; rm x"',
    "bash -c 'bash -c \"rm x\"'",
    "eval rm x",
    "eval 'rm x'",
    "xargs rm < list",
    "find . -exec rm {} ;",
    "sudo -n rm x",
    "nohup nice -n 5 rm x",
    "timeout 5 rm x",
    "if true; then rm x; fi",
    "while true; do rm x; done",
    "{ rm x; }",
    "(rm x)",
    "! rm x",
    "time rm x",
    "git push",
    "git push origin main",
    "command git push",
  ])("asks about %j, which runs what a rule names", (command) => {
    expect(decision(command)).toBe("ask");
  });

  it.each([
    "$(rm x)",
    "git status $(rm x)",
    'git status "$(rm x)"',
    "git status `rm x`",
    'git status "`rm x`"',
    "git status <(rm x)",
    "git status >(rm x)",
    "git status >&1x",
    "git status 2>&1x",
    "git status >&12",
    "$CMD x",
    ["$", "{CMD} x"].join(""),
    "$'\\x72m' x",
    "r? x",
    "/bin/r* x",
    "[r]m x",
    "{rm,-rf,.}",
    ["git status $", "{X:-$(rm x)}"].join(""),
    "cat <<EOF\nx\nEOF",
    "cat <<-'EOF'\nx\nEOF",
    "f() { ls; }; f",
    "function f { ls; }",
    "for x in a; do ls; done",
    "case x in x) ls;; esac",
    "[[ -f x ]] && ls",
    "((1)) && ls",
    "ls 'unclosed",
    'ls "unclosed',
    "alias ls=rm",
    "git push $X",
    "git status\r\nrm x",
    "ls \u0000",
    "ls\u00a0x; ls",
    "ls\u2028rm",
    `bash -c ${"'".repeat(0)}"bash -c \\"bash -c \\\\\\"bash -c rm\\\\\\"\\""`,
  ])("asks about %j, because it may run what a rule names", (command) => {
    expect(decision(command)).toBe("ask");
  });

  it.each([
    "git status > out.txt",
    "git status >> out.txt",
    "git status >| out.txt",
    "git status < in.txt",
    "git status <<< text",
    "git status &> out.txt",
    "git status -s",
    "git",
    "git stash",
    "gitstatus",
    "X=1 git status",
    "LD_PRELOAD=./evil.so ls",
    "GIT_PAGER=x git log",
    "cat $HOME",
    "cat ?.md",
    "cat a.md b.md",
    "cat {a,b}.md",
    "( git status )",
    "{ git status; }",
    "! git status",
    "if git status; then ls; fi",
    "env git status",
    "./git status",
    "/tmp/git status",
    "bash -c 'git status'",
    "",
    "   ",
    "# only a comment",
  ])("neither allows nor restricts %j", (command) => {
    expect(decision(command)).toBe(undefined);
  });

  it.each(["shutdown now", "git push --force origin", "ls; shutdown", "bash -c 'shutdown -h'"])(
    "denies %j",
    (command) => {
      expect(decision(command)).toBe("deny");
    },
  );

  const hidden = [
    "bash <<< 'rm x'",
    "echo rm x | sh",
    "echo rm x | bash -s",
    "echo rm x|bash -",
    "bash < file",
    "bash file",
    "bash --rcfile file -i",
    "bash -ic ls",
    "bash -o pipefail file",
    "bash -c --norc ls",
    "bash -c",
    "dash <<'EOF'\nls\nEOF",
    "cat file | /bin/zsh",
    "sh /dev/stdin < file",
    "sh <(echo ls)",
    "{ sh; } < file",
    "(sh) < file",
    "echo ls | sudo sh",
    "echo ls | env sh",
    "echo ls | env -i X=1 sh",
    "echo ls | command sh",
    "echo ls | exec sh",
    "echo ls | busybox sh",
    "echo ls | timeout 5 nice sh",
    "coproc sh < file",
    "timeout 5 sh file",
    "source x",
    ". x",
    ". /dev/stdin <<< ls",
    "builtin source x",
    "command . x",
    'bash -c "$X"',
    'eval "$X"',
    'trap "$X" EXIT',
    "bash -c 'cat file | sh'",
    "bash -c 'eval \"$1\"' _ ls",
    "echo ls | xargs sh -c",
    "echo ls | xargs -I{} sh -c {}",
    "echo ls | xargs -I % sh -c 'echo; %'",
    "echo ls | xargs -I{} {}",
    "echo ls | xargs -d x -n 1 bash -c",
    "echo ls | xargs timeout 5",
    "echo ls | xargs xargs",
    "echo '. -exec ls' | xargs find",
    "echo x | xargs awk",
    "echo x | xargs sed -n",
    "echo ls | parallel",
    "parallel sh -c {} ::: ls",
    "find . -exec sh {} ;",
    "python",
    "python - < file",
    "echo 'import os' | python3",
    "python3.11 -c 'import os'",
    "python -W ignore -c 'import os'",
    "node - < file",
    "node -e 'x'",
    "node --eval=x",
    "perl -e 'x'",
    "perl -i -pe x file",
    "ruby -e x",
    "php -r x",
    "env python -c x",
    "awk 'BEGIN { system(\"ls\") }'",
    "awk 'BEGIN { \"ls\" | getline }'",
    "gawk -f file",
    "sed '1e ls' file",
    "sed 's/x/ls/e' file",
    "sed -n 's|x|ls|gpe' file",
    "sed -e '/x/e' file",
    "sed -f file",
    "ed file",
    "vim -c '!ls'",
    "echo ls | at now",
    "printf -v 'a[$(ls)]' x",
    'printf -v "a[\\$(ls)]" x',
    "read 'a[$(ls)]' <<< x",
    "read 'a[`ls`]'",
    "declare 'a[$(ls)]=1'",
    "typeset -i 'a[$(ls)]'",
    "export 'a[$(ls)]=1'",
    "unset 'a[$(ls)]'",
    "let 'a[$(ls)]=1'",
    "test -v 'a[$(ls)]'",
    "[ -v 'a[$(ls)]' ]",
    "[[ -v 'a[$(ls)]' ]]",
    "[[ 'a[$(ls)]' -eq 1 ]]",
    "mapfile 'a[$(ls)]' < file",
    "x='a[$(ls)]'; echo $((x))",
    "x='$(ls)'",
    "BASH_ENV=file bash -c ls",
    "PS4='$(ls)' bash -xc ls",
    ["GIT_PAGER=$", "{X} git log"].join(""),
  ];
  it.each(hidden)(
    "refuses %j under a deny rule, and asks about it under an ask rule",
    (command) => {
      const rule = execute("reboot");
      expect(decide([{ deny: [rule] }], "execute", { command })).toBe("deny");
      expect(decide([{ ask: [rule] }], "execute", { command })).toBe("ask");
    },
  );

  it.each([
    "X='1' rm x",
    'X="a b" rm x',
    "sudo bash -c 'rm x'",
    "timeout 5 sh -c 'ls; rm x'",
    "xargs sh -c 'rm x'",
    "find . -exec sh -c 'rm x' ;",
    "env -S 'rm x'",
    "env -S'rm x'",
    "flock file -c 'rm x'",
    "GIT_PAGER='rm x' git log",
    "export PAGER='rm x'",
    "X='rm x'; $X",
    "parallel ::: 'rm x'",
    "mapfile -C 'rm x' -c 1 < file",
    "compgen -C 'rm x'",
    "jobs -x rm x",
    "command -p rm x",
    "exec -a ls rm x",
    "bash -c -- 'rm x'",
    "bash -ec 'rm x'",
    "bash -euo pipefail -c 'rm x'",
    "script -c 'rm x'",
  ])("denies %j, which runs what a rule denies", (command) => {
    expect(decide([{ deny: [execute("rm")] }], "execute", { command })).toBe("deny");
  });

  it.each([
    "bash --version",
    "bash -c 'ls -l'",
    "bash -euo pipefail -c 'ls -l'",
    "bash -lc 'git status && ls'",
    "python job.py --verbose",
    "python -m unittest",
    "python3 -u job.py",
    "node --test",
    "node build.js -p",
    "perl script.pl",
    "npm test",
    "make",
    "./build.sh",
    "awk '{ print $1 }' file",
    "sed -n '1,5p' file",
    "sed 's/one/two/g' file",
    "sed -i 's/here/there/' file",
    "find . -name bash",
    "ls | xargs cat",
    "ls | xargs -I{} cp {} out",
    "printf '%s\\n' 'a[1]'",
    "read line",
    "X=1 ls",
    "grep -r '$HOME' .",
    "timeout 60 grep -r x .",
  ])("does not restrict %j, which shows what it runs or runs a program", (command) => {
    expect(decide([{ deny: [execute("reboot")] }], "execute", { command })).toBe(undefined);
  });

  it.each([
    { tool: "execute", input: { command: "rm *" } },
    { tool: "*", input: { command: "rm *" } },
    { tool: "exec*", input: { command: "*", background: "true" } },
  ])("refuses the rule %j, which matches the text of a script", (rule) => {
    for (const list of ["allow", "ask", "deny"]) {
      expect(permissionsProblem({ [list]: [rule] })).toBe(
        `permissions.${list}[0].input.command matches the text of a script, which quotes and spaces change; use \`command\` instead of \`input\``,
      );
    }
    expect(permissionsHint).toContain('{ tool: "execute", command: "rm" }');
  });

  it("asks when only the shell knows whether a deny rule matches", () => {
    const deny: Permissions = { deny: [execute("rm")] };
    expect(decide([deny], "execute", { command: "$X" })).toBe("ask");
    expect(decide([deny], "execute", { command: "ls $X" })).toBe(undefined);
    expect(decide([deny], "execute", { command: "rm $X" })).toBe("deny");
  });

  it("does not apply to other tools or to calls without a command", () => {
    expect(decide([rules], "write_file", { command: "rm x" })).toBe(undefined);
    expect(decide([rules], "execute", { path: "rm x" })).toBe(undefined);
    expect(decide([rules], "execute", { command: ["git", "status"] })).toBe(undefined);
  });

  it("needs every field of a rule to match", () => {
    const allow = [{ ...execute("ls *"), input: { background: "true" } }];
    expect(decide([{ allow }], "execute", { command: "ls", background: true })).toBe("allow");
    expect(decide([{ allow }], "execute", { command: "ls" })).toBe(undefined);
  });

  it.each(["git status; ls", "$X", "a | b", "ls > x", "", "(ls)", 5])(
    "refuses the pattern %j",
    (command) => {
      expect(permissionsProblem({ allow: [{ tool: "execute", command }] })).toBe(
        "permissions.allow[0] must be a rule",
      );
    },
  );

  it("reads a script of any length and nesting in bounded time", () => {
    const started = performance.now();
    for (const text of ["'", '"', "$(", "{", "a ", "bash -c '", "<", "\\", "((", "a;"]) {
      decision(text.repeat(40_000));
    }
    for (const text of ["env ", "eval ", "watch 'env ", "parallel env ", "X='", "sudo sh -c "]) {
      for (const count of [10, 20, 200, 10_000]) decision(text.repeat(count));
    }
    console.log(`34 scripts of up to 40,000 parts: ${Math.round(performance.now() - started)} ms`);
  });

  it("always allows one command after an answer, not the whole tool", () => {
    const messages = [
      {
        id: "1",
        role: "assistant",
        content: [{ type: "tool_use", id: "c", name: "execute", input: { command: "rm a" } }],
      },
      {
        id: "2",
        role: "user",
        content: [{ type: "suspension", callId: "c", kind: "approval", approvalId: "p" }],
      },
      {
        id: "3",
        role: "user",
        content: [
          { type: "answer", approvalId: "p", callId: "c", decision: "approve", always: true },
        ],
      },
    ] as unknown as Parameters<typeof isAlwaysAllowed>[0];
    expect(isAlwaysAllowed(messages, "execute", { command: "rm a" })).toBe(true);
    expect(isAlwaysAllowed(messages, "execute", { command: "rm b" })).toBe(false);
  });
});
