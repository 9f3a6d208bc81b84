/** A directory below `skills`, and what becomes of it. */
export interface Variant {
  readonly directory: string;
  /** The files of the directory by path. */
  readonly files: Readonly<Record<string, string | Uint8Array>>;
  /** The skill that `agent.skills()` returns; absent if the skill is skipped. */
  readonly skill?: object;
  /** Parts of the warnings, in order: one for a skipped skill. */
  readonly warnings?: readonly string[];
}

const skill = (frontMatter: string, body = "# Steps\n\nDo it well.") =>
  `---\n${frontMatter}\n---\n${body}\n`;
const only = (content: string | Uint8Array) => ({ "SKILL.md": content });
const described = (name: string, more = "") =>
  only(skill(`name: ${name}\ndescription: Does ${name}.${more && `\n${more}`}`));
const basic = (name: string) => ({ name, description: `Does ${name}.` });
const encoder = new TextEncoder();

/** Skills of every shape that the public format has or forbids. */
export const variants: readonly Variant[] = [
  // Valid.
  { directory: "minimal", files: described("minimal"), skill: basic("minimal") },
  {
    directory: "complete",
    files: {
      "SKILL.md": skill(
        [
          "name: complete",
          "description: >-",
          "  Fills PDF forms.",
          "  Use it for forms.",
          "license: Apache-2.0. See LICENSE.txt.",
          "compatibility: Requires python3 and network access.",
          "metadata:",
          "  author: example-org",
          '  version: "1.0"',
          "allowed-tools: Bash(python3:*) Read",
        ].join("\n"),
      ),
      "LICENSE.txt": "Apache License",
      "references/forms.md": "# Forms\n",
      "scripts/fill.py": "print('filled')\n",
      "assets/logo.png": Uint8Array.of(0x89, 0x50, 0, 1),
    },
    skill: {
      name: "complete",
      description: "Fills PDF forms. Use it for forms.",
      license: "Apache-2.0. See LICENSE.txt.",
      compatibility: "Requires python3 and network access.",
      metadata: { author: "example-org", version: "1.0" },
      allowedTools: [{ tool: "execute", command: "python3 *" }, { tool: "read_file" }],
    },
  },
  {
    directory: "bom-and-crlf",
    files: only(
      "\uFEFF---\r\nname: bom-and-crlf\r\ndescription: Does bom-and-crlf.\r\n---\r\nGo.\r\n",
    ),
    skill: basic("bom-and-crlf"),
  },
  { directory: "2048", files: described("2048"), skill: basic("2048") },
  {
    directory: "a".repeat(64),
    files: described("a".repeat(64)),
    skill: basic("a".repeat(64)),
  },
  {
    directory: "quoted",
    files: only(skill(`name: "quoted"\ndescription: 'Says: "yes", # not a comment'`)),
    skill: { name: "quoted", description: 'Says: "yes", # not a comment' },
  },
  {
    directory: "long-description",
    files: only(skill(`name: long-description\ndescription: ${"x".repeat(1024)}`)),
    skill: { name: "long-description", description: "x".repeat(1024) },
  },
  {
    directory: "unicode",
    files: only(skill("name: unicode\ndescription: 日本語の文章を校正します。")),
    skill: { name: "unicode", description: "日本語の文章を校正します。" },
  },
  {
    directory: "tool-list",
    files: described(
      "tool-list",
      "allowed-tools:\n  - Write\n  - mcp__github__search\n  - notes_*",
    ),
    skill: {
      ...basic("tool-list"),
      allowedTools: [{ tool: "write_file" }, { tool: "github_search" }, { tool: "notes_*" }],
    },
  },
  {
    directory: "tool-commas",
    files: described("tool-commas", "allowed-tools: Grep, Bash(git status), Bash(*)"),
    skill: {
      ...basic("tool-commas"),
      allowedTools: [
        { tool: "grep_files" },
        { tool: "execute", command: "git status" },
        { tool: "execute" },
      ],
    },
  },
  {
    directory: "no-tools",
    files: described("no-tools", 'allowed-tools: ""'),
    skill: { ...basic("no-tools"), allowedTools: [] },
  },
  {
    directory: "nested-metadata",
    files: described("nested-metadata", "metadata:\n  count: 3\n  tags: [a, b]"),
    skill: { ...basic("nested-metadata"), metadata: { count: "3", tags: '["a","b"]' } },
  },
  {
    directory: "empty-keys",
    files: described("empty-keys", "license:\ncompatibility:\nmetadata:\nallowed-tools:"),
    skill: basic("empty-keys"),
  },
  // Valid, with a warning.
  {
    directory: "unknown-keys",
    files: described("unknown-keys", "version: 3\nmodel: big"),
    skill: basic("unknown-keys"),
    warnings: ['"version" is ignored: put it below metadata', '"model" is ignored'],
  },
  {
    directory: "path-pattern",
    files: described("path-pattern", "allowed-tools: Write(docs/**) Edit"),
    skill: { ...basic("path-pattern"), allowedTools: [{ tool: "edit_file" }] },
    warnings: ["only a shell can have a pattern in parentheses"],
  },
  {
    directory: "odd-pattern",
    files: described("odd-pattern", "allowed-tools: Bash(git log; rm) Bash(git log *)"),
    skill: { ...basic("odd-pattern"), allowedTools: [{ tool: "execute", command: "git log *" }] },
    warnings: ["its pattern is not one simple command"],
  },
  {
    directory: "no-body",
    files: only("---\nname: no-body\ndescription: Does no-body.\n---\n"),
    skill: basic("no-body"),
    warnings: ["has no instructions"],
  },
  // Skipped.
  {
    directory: "no-front-matter",
    files: only("# A skill\n\nname: no-front-matter\n"),
    warnings: ["must start with front matter"],
  },
  {
    directory: "open-front-matter",
    files: only("---\nname: open-front-matter\ndescription: x\n"),
    warnings: ["front matter has no end"],
  },
  {
    directory: "bad-yaml",
    files: only(skill("name: bad-yaml\ndescription: Use when: someone asks")),
    warnings: ["Line 3: "],
  },
  {
    directory: "code-in-yaml",
    files: only(skill("name: code-in-yaml\ndescription: !!js/function 'function () {}'")),
    warnings: ["Line 3: "],
  },
  {
    directory: "alias",
    files: only(skill("name: &a alias\ndescription: *a")),
    warnings: ["aliases are not followed"],
  },
  {
    directory: "twice",
    files: described("twice", "name: twice"),
    warnings: ['The key "name" is duplicated'],
  },
  {
    directory: "no-name",
    files: only(skill("description: Does something.")),
    warnings: ["`name` is required"],
  },
  {
    directory: "other-name",
    files: described("another-name"),
    warnings: ['`name` is "another-name", but the directory is "other-name"'],
  },
  {
    directory: "Capital",
    files: described("Capital"),
    warnings: ["small letters, digits and single hyphens"],
  },
  {
    directory: "two--hyphens",
    files: described("two--hyphens"),
    warnings: ["small letters, digits and single hyphens"],
  },
  {
    directory: "hyphen-",
    files: described("hyphen-"),
    warnings: ["small letters, digits and single hyphens"],
  },
  {
    directory: "b".repeat(65),
    files: described("b".repeat(65)),
    warnings: ["longer than 64 characters"],
  },
  {
    directory: "no-description",
    files: only(skill("name: no-description")),
    warnings: ["`description` is required"],
  },
  {
    directory: "blank-description",
    files: only(skill('name: blank-description\ndescription: "  "')),
    warnings: ["`description` is empty"],
  },
  {
    directory: "longer-description",
    files: only(skill(`name: longer-description\ndescription: ${"x".repeat(1025)}`)),
    warnings: ["has 1025 characters; the limit is 1024"],
  },
  {
    directory: "listed-description",
    files: only(skill("name: listed-description\ndescription: [a, b]")),
    warnings: ["`description` must be a string"],
  },
  {
    directory: "long-compatibility",
    files: described("long-compatibility", `compatibility: ${"x".repeat(501)}`),
    warnings: ["`compatibility` has 501 characters"],
  },
  {
    directory: "text-metadata",
    files: described("text-metadata", "metadata: version 1"),
    warnings: ["`metadata` must be keys with values"],
  },
  {
    directory: "number-tools",
    files: described("number-tools", "allowed-tools: 3"),
    warnings: ["`allowed-tools` must be a string or a list of strings"],
  },
  {
    directory: "odd-tools",
    files: described("odd-tools", "allowed-tools: Bash(rm -rf"),
    warnings: ["`allowed-tools` has the entry"],
  },
  {
    directory: "large",
    files: only(skill("name: large\ndescription: Does large.", "x".repeat(64 * 1024))),
    warnings: ["SKILL.md is larger than 65536 bytes"],
  },
  {
    directory: "binary",
    files: only(Uint8Array.of(...encoder.encode("---\nname: binary\n"), 0xff, 0xfe, 0xfd)),
    warnings: ["is not UTF-8 text"],
  },
  {
    directory: "small-letters",
    files: { "skill.md": skill("name: small-letters\ndescription: x") },
    warnings: ["must be named SKILL.md, not skill.md"],
  },
  {
    directory: "group",
    files: { "inner/SKILL.md": skill("name: inner\ndescription: Not read.") },
    warnings: ["The directory has no SKILL.md"],
  },
];
