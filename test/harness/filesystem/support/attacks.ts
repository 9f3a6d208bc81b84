import type { Random } from "../../../support/random.ts";

/** The targets of an attacker. */
export interface Targets {
  /** The absolute path of the root. */
  readonly root: string;
  /** A name beside the root, and one in another namespace. */
  readonly canary: string;
  readonly victim: string;
}

const dots = [
  "..",
  "...",
  "....",
  ".. ",
  " ..",
  "..\t",
  "..\u00a0",
  "%2e%2e",
  "%2E.",
  "%252e%252e",
  "..%00",
  "..\0",
  "..;",
  "\u2025",
  "\uff0e\uff0e",
  "\u2024\u2024",
  ".\u200b.",
  ".\u202e.",
  "%c0%ae%c0%ae",
  "%u002e%u002e",
  "\\..",
  "..\\",
  ".%2e",
  '".."',
  "'..'",
];
const slashes = [
  "/",
  "//",
  "/./",
  "\\",
  "\\/",
  "%2f",
  "%5c",
  "%252f",
  "\u2215",
  "\u2044",
  "\uff0f",
  "\u29f8",
  "%c0%af",
  "%e0%80%af",
  "/\0/",
  ":",
  "/\n",
];
const prefixes = [
  "",
  "./",
  "/",
  "//",
  "///",
  "~",
  "~/",
  "~root/",
  "file://",
  "file:///",
  "C:",
  "C:\\",
  "c:/",
  "\\\\?\\",
  "\\\\.\\",
  "\\\\server\\share\\",
  "//?/C:/",
  "$HOME/",
  "$\u007bHOME}/",
  "%HOME%/",
  "~+/",
  "@",
  "-",
  "--",
  "notes.md/",
  "notes/",
  "nowhere/",
  "/proc/self/root/",
  "/proc/self/cwd/",
  "/proc/self/fd/",
  "/dev/fd/",
  "skills/",
  "subagents/",
  "agents/child/workspace/",
  "knowledge/",
  ".git/",
  ".rivulet/",
  "link-up/",
  "link-out/",
  "link-chain/",
  "link-loop/",
  "notes/link-up/",
];
const ends = [
  "",
  "/",
  "/.",
  "/..",
  ".",
  " ",
  "\0",
  "\0.md",
  "%00.md",
  "::$DATA",
  ":stream",
  "\n",
  "?",
  "#",
  "*",
  "~",
  "~1",
  "/x",
  "\u200b",
];

/** Creates a hostile string: a way out of the root and a target, with random changes. */
export function attack(random: Random, { root, canary, victim }: Targets): string {
  const goals = [
    canary,
    victim,
    `root/../${canary}`,
    `root-evil/${canary}`,
    `${root}/../${canary}`,
    `${root}-evil/${canary}`,
    `${root}/.rivulet/namespaces/user-bob/${victim}`,
    `.rivulet/namespaces/user-bob/${victim}`,
    `user-bob/${victim}`,
    `bob/${victim}`,
    `namespaces/user-bob/${victim}`,
    "etc/passwd",
    "/etc/passwd",
    "dev/zero",
    "link-file",
    "link-out",
    "link-up",
    "link-chain",
    "link-dangling",
    "link-loop",
    "link-zero",
    "pipe",
    "socket",
    `link-out/${canary}`,
    `link-up/${canary}`,
    `link-chain/${canary}`,
    `notes/link-up/${canary}`,
    "skills/x/SKILL.md",
    "subagents/evil.md",
    "tools.json",
    "agents/child/workspace/a.md",
    "agents/other/x",
    "AGENTS.md",
    "knowledge/KNOWLEDGE.md",
    ".git/hooks/post-checkout",
    ".git/config",
    ".rivulet/files.lock",
    ".rivulet-tmp",
    "CON",
    "nul.txt",
    "COM1",
    "x".repeat(random.int(200, 5_000)),
    "a/".repeat(random.int(50, 3_000)),
  ];
  // Many go straight to their target, so that they pass the first check and reach the disk.
  const isStraight = random.chance(0.35);
  const way = Array.from(
    { length: isStraight ? 0 : random.int(0, 6) },
    () => random.pick(random.chance(0.6) ? ["..", "../."] : dots) + slash(random),
  );
  const start = isStraight && random.chance(0.5) ? "" : random.pick(prefixes);
  const end = random.chance(0.4) ? "" : random.pick(ends);
  const text = start + way.join("") + random.pick(goals) + end;
  return random.chance(0.4) ? mutate(random, text) : text;
}

function slash(random: Random): string {
  return random.chance(0.6) ? "/" : random.pick(slashes);
}

/** Changes the case, the spelling or the encoding of a part. */
function mutate(random: Random, text: string): string {
  const at = random.int(0, text.length);
  const [before, after] = [text.slice(0, at), text.slice(at)];
  const changes = [
    () => before + after.toUpperCase(),
    () => before.toUpperCase() + after,
    () => before + encodeURIComponent(after.toWellFormed()),
    () => before + String.fromCodePoint(random.int(0, 0x2fff)) + after,
    () => before + String.fromCharCode(random.int(0xd800, 0xdfff)) + after,
    () => before + random.pick(dots) + slash(random) + after,
    () => text.normalize(random.pick(["NFD", "NFKD", "NFKC"])),
    () => text.replaceAll("s", "\u017f"),
    () => text.replaceAll("k", "\u212a"),
    () => text.replaceAll("/", random.pick(slashes)),
    () => text.replace(/[a-z]/, (letter) => String.fromCodePoint(letter.charCodeAt(0) + 0xfee0)),
    () => text + text,
  ];
  return random.pick(changes)();
}
