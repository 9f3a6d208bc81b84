import { describe, expect, it } from "vitest";
import { decide, isAlwaysAllowed, type Permissions, permissionsProblem } from "./permission.ts";

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
    "source x",
    ". x",
    "alias ls=rm",
    'bash -c "$X"',
    'trap "$X" EXIT',
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
    "python -c 'x'",
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
    console.log(`ten scripts of 40,000 parts: ${Math.round(performance.now() - started)} ms`);
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
