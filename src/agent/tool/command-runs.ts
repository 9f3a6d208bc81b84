import { assignment, readScript, type SimpleCommand } from "./command-script.ts";

/** The commands that a script runs, as far as rules can know them. */
export interface ScriptRuns {
  /** The commands of the script, and of the scripts among their arguments. */
  readonly commands: readonly SimpleCommand[];
  /** Whether `commands` is everything that runs, in plain sight; if not, no rule may allow the script. */
  readonly isPlain: boolean;
  /** Whether it may run commands that are not in `commands`. */
  readonly isOpaque: boolean;
  /** Whether it gives an interpreter commands that rules cannot read. */
  readonly isHidden: boolean;
}

const maxNesting = 5;
/** The characters and arguments that are read, those of nested scripts included, so that no script takes long. */
const maxRead = 200_000;
const maxArguments = 500;

/** Programs that run the rest of their arguments as a command. */
const prefixes = new Set([
  ...["builtin", "busybox", "catchsegv", "chpst", "chrt", "chroot", "command", "cpulimit", "doas"],
  ...["dumb-init", "eatmydata", "entr", "env", "exec", "fakeroot", "faketime", "find", "firejail"],
  ...["flock", "gosu", "hyperfine", "ionice", "jobs", "ltrace", "nice", "nohup", "nsenter"],
  ...["numactl", "parallel", "perf", "pkexec", "prlimit", "run0", "runuser", "setarch", "setpriv"],
  ...["setsid", "sshpass", "start-stop-daemon", "stdbuf", "strace", "su-exec", "sudo"],
  ...["systemd-run", "taskset", "time", "timeout", "tini", "toybox", "unbuffer", "unshare"],
  ...["valgrind", "watch", "xargs", "xvfb-run"],
]);
/** Programs that run a text among their arguments as a script. */
const textRunners = new Set([
  ...["entr", "env", "flock", "hyperfine", "parallel", "runuser", "script", "sg", "ssh", "su"],
  ...["watch"],
]);
/** Builtins that do so. */
const evaluators = new Set(["compgen", "complete", "eval", "mapfile", "readarray", "trap"]);
/** Programs that can run a builtin. */
const builtinPrefixes = new Set(["builtin", "command"]);
const shells = new Set(["ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "yash", "zsh"]);
/** Programs that read their commands from their input or a file, and can run others. */
const scripted = new Set([
  ...["at", "batch", "crontab", "csh", "dc", "ed", "emacs", "ex", "expect", "fish", "gdb", "lldb"],
  ...["m4", "mysql", "nvim", "osascript", "psql", "pwsh", "rvim", "sqlite3", "tclsh", "tcsh"],
  ...["vi", "view", "vim", "wish"],
]);
const languages =
  /^(?:python|pypy|node|nodejs|deno|bun|perl|ruby|php|lua|luajit|guile|r|rscript)[\d.]*$/i;
const codeOptions = /^-[a-zA-Z]*[ceEpPr]|^--(?:eval|print|require|import|command|execute)/;
const valueOptions = /^-[WXQICdzlK]$/;
const awks = new Set(["awk", "gawk", "mawk", "nawk"]);
const seds = new Set(["sed", "gsed"]);
/** Commands that change what later words mean. */
const redefining = new Set(["alias", "shopt", "set", "enable", "hash", "unalias", "let"]);
/** Commands that read a file as a script. */
const sourcing = new Set(["source", "."]);
/** Builtins that evaluate a name: its subscript can run commands. */
const naming = new Set([
  ...["declare", "export", "getopts", "local", "mapfile", "printf", "read", "readarray"],
  ...["readonly", "typeset", "unset", "wait"],
]);
/** Variables that a shell or a program runs as a script, or whose file a shell runs. */
const runVariable =
  /^(?:BASH_ENV|ENV|PS[0-4]|PROMPT_COMMAND|BASH_FUNC.*|LESSOPEN|LESSCLOSE|VISUAL|BROWSER|\w*(?:PAGER|EDITOR|_COMMAND|_SSH|_RSH|ASKPASS))$/;
const fileVariables = new Set(["BASH_ENV", "ENV"]);
// Arithmetic and many builtins evaluate the subscript of a name, also in quotes.
const runningSubscript = /\[[^\]]*(?:`|\$\()/;
const substitution = /`|\$[({]/;
/** An option in one word with its text. */
const attachedText = /^(?:-[a-zA-Z]|--[\w-]+=)/;
const isVersion = (word: string | undefined) => /^(?:--version|--help|-V|-h|-v)$/.test(word ?? "");

/** Reads a script with everything that its commands run, as far as rules can tell. */
export function readRuns(text: string): ScriptRuns {
  return readNested(text, { nesting: 0, left: { characters: maxRead }, known: new Map() });
}

interface Reading {
  readonly nesting: number;
  readonly left: { characters: number };
  /** The scripts that were read before, by their nesting and text. */
  readonly known: Map<string, ScriptRuns>;
}

interface Found {
  readonly commands: Set<SimpleCommand>;
  isPlain: boolean;
  isOpaque: boolean;
  isHidden: boolean;
  readonly reading: Reading;
}

const unread = { commands: [], isPlain: false, isOpaque: true, isHidden: true };

function readNested(text: string, reading: Reading): ScriptRuns {
  const { nesting, left, known } = reading;
  const key = `${nesting} ${text}`;
  const same = known.get(key);
  if (same) return same;
  left.characters -= text.length + 1;
  if (nesting > maxNesting || left.characters < 0) return unread;
  const script = readScript(text);
  const found: Found = {
    commands: new Set(script.commands),
    isPlain: script.isPlain,
    isOpaque: script.isOpaque,
    isHidden: script.texts.some((word) => runningSubscript.test(word)),
    reading: { ...reading, nesting: nesting + 1 },
  };
  for (const written of script.assignments) readAssignment(written, found);
  for (const { words } of script.commands) {
    if (words.length === 0) continue;
    const isBuiltin = builtinPrefixes.has(nameOf(words[0] ?? ""));
    const starts = startsIn(words);
    if (starts.length > maxArguments) hide(found);
    for (const start of starts.slice(0, maxArguments)) {
      if (start === 0 || isBuiltin) readBuiltin(words.slice(start), found);
      readProgram(words.slice(start), found);
    }
  }
  const { isOpaque, isHidden } = found;
  const commands = [...found.commands];
  const runs = { commands, isOpaque, isHidden, isPlain: found.isPlain && !isOpaque };
  known.set(key, runs);
  return runs;
}

function hide(found: Found): void {
  found.isHidden = true;
  found.isPlain = false;
}

/** Where commands may begin in the words of a simple command: after a program that runs its arguments, everywhere. */
export function startsIn(words: SimpleCommand["words"]): readonly number[] {
  const [first] = words;
  const name = first === undefined ? "" : nameOf(first);
  if (!prefixes.has(name)) return [0];
  const isStart = (index: number) =>
    name !== "find" || index === 0 || /^-(?:exec|ok)(?:dir)?$/.test(words[index - 1] ?? "");
  return [...words.keys()].filter(isStart);
}

/** The name of a program without its directory. */
export function nameOf(word: string): string {
  return word.slice(word.lastIndexOf("/") + 1);
}

/** Reads what a builtin of the shell runs. */
function readBuiltin([first = "", ...given]: SimpleCommand["words"], found: Found): void {
  if (redefining.has(first)) found.isOpaque = true;
  if (sourcing.has(first)) hide(found);
  if (naming.has(first)) readNames(first, given, found);
  if (!evaluators.has(first)) return;
  if (given.includes(undefined)) hide(found);
  readTexts(given, found);
}

/** Reads what a program runs; `words` may also be arguments that are no command. */
function readProgram([first, ...given]: SimpleCommand["words"], found: Found): void {
  if (first === undefined) {
    found.isOpaque = true;
    return;
  }
  const name = nameOf(first);
  if (name === "xargs" || name === "parallel") readItems(name, given, found);
  if (textRunners.has(name)) readTexts(given, found);
  if (shells.has(name)) readShell(given, found);
  if (scripted.has(name) && !given.some(isVersion)) hide(found);
  const runs = awks.has(name) ? runsInAwk : seds.has(name) ? runsInSed : undefined;
  const hasText = given.some((word) => !word?.startsWith("-"));
  if (runs && (!hasText || given.some((word) => word === undefined || runs(word)))) hide(found);
  // An allow rule that names such a program allows its code as well, as it allows a program in a file.
  if (languages.test(name)) found.isHidden ||= isCode(given);
}

/** A shell shows its commands only in the literal text after `-c`. */
function readShell(given: SimpleCommand["words"], found: Found): void {
  if (given.length > 0 && given.every(isVersion)) return;
  let options = "";
  let at = 0;
  for (; /^[-+][a-zA-Z]+$/.test(given[at] ?? ""); at++) {
    options += given[at];
    if (/o$/i.test(given[at] ?? "")) at++;
  }
  if (given[at] === "--" || given[at] === "-") at++;
  const text = given[at];
  // An interactive shell reads a file first, and -s reads the input.
  const isShown = /c/.test(options) && !/[is]/.test(options) && !text?.startsWith("-");
  if (isShown && text !== undefined) readText(text, found);
  else hide(found);
}

function readTexts(given: SimpleCommand["words"], found: Found): void {
  if (given.length > maxArguments) {
    hide(found);
    return;
  }
  const texts = given.filter((word) => word !== undefined);
  const isKnown = texts.length === given.length;
  if (!isKnown) found.isOpaque = true;
  for (const text of isKnown ? [...texts, texts.join(" ")] : texts) {
    readText(text.replace(attachedText, ""), found);
  }
}

function readText(text: string, found: Found): void {
  const inner = readInto(text, found);
  found.isOpaque ||= inner.isOpaque;
  if (inner.isHidden) hide(found);
}

function readInto(text: string, found: Found): ScriptRuns {
  const inner = readNested(text, found.reading);
  for (const command of inner.commands) found.commands.add(command);
  return inner;
}

/** The value of a variable may be run later, by its name or by a program that knows the variable. */
function readAssignment(written: string, found: Found): void {
  const [whole, name = ""] = assignment.exec(written) ?? [""];
  const value = written.slice(whole.length);
  if (substitution.test(value) || fileVariables.has(name)) hide(found);
  const inner = readInto(value.replaceAll("\0", "x"), found);
  const isUnread = value.includes("\0") || inner.isOpaque || inner.isHidden;
  if (runVariable.test(name) && isUnread) hide(found);
}

function readNames(name: string, given: SimpleCommand["words"], found: Found): void {
  const isInteger = given.some((word) => /^-[a-zA-Z]*i/.test(word ?? ""));
  const isNamed = name !== "printf" || given[0] === undefined || given[0].startsWith("-v");
  if (isNamed && (isInteger || given.includes(undefined))) found.isOpaque = true;
  for (const word of given) if (word && assignment.test(word)) readAssignment(word, found);
}

/** A program that reads arguments from its input runs one of them if it stands for the command, or for a script. */
function readItems(name: string, given: SimpleCommand["words"], found: Found): void {
  let placeholder = name === "parallel" ? "{}" : undefined;
  let at = 0;
  for (; at < given.length && given[at]?.startsWith("-"); at++) {
    const option = given[at] as string;
    const [, replaced] = /^(?:-[Ii]|--replace=?)(.*)$/s.exec(option) ?? [];
    const hasValue = /^-[adEILnPsjNSC]$/.test(option);
    if (replaced !== undefined) placeholder = replaced || (hasValue ? given[at + 1] : "{}");
    if (hasValue) at++;
  }
  const command = given.slice(at);
  const isItem = (word: string | undefined) =>
    word === undefined || (placeholder !== undefined && word.includes(placeholder));
  const program = nameOf(command[0] ?? "");
  // Items that follow such a program are its command.
  const isOpen = prefixes.has(program) || textRunners.has(program);
  const runsItems = command.length === 0 ? name === "parallel" : isOpen || isItem(command[0]);
  const shell = command.findIndex((word) => word !== undefined && shells.has(nameOf(word)));
  const text = command.slice(shell + 1).find((word) => !word?.startsWith("-"));
  if (runsItems || (shell >= 0 && isItem(text))) hide(found);
}

/** Whether a program of another language gets its code from its arguments or its input, and not from a file. */
function isCode(given: SimpleCommand["words"]): boolean {
  if (given.length > 0 && given.every(isVersion)) return false;
  let hasName = false;
  for (const [index, word] of given.entries()) {
    if (word === undefined || word === "-" || word === "eval" || codeOptions.test(word))
      return true;
    if (/^-m$|^--(?:test|run)\b/.test(word) || (!word.startsWith("-") && /[./]/.test(word)))
      return false;
    hasName ||= !word.startsWith("-") && !valueOptions.test(given[index - 1] ?? "");
  }
  return !hasName;
}

/** Whether a program of awk may run a command, or is in a file. */
function runsInAwk(word: string): boolean {
  return /system|\||getline|@|^-f|^--file/.test(word);
}

/** Whether a script of GNU sed may run a command, or is in a file. */
function runsInSed(word: string): boolean {
  if (/^-[a-zA-Z]*f|^--file/.test(word)) return true;
  const isCommand = /(?:^|[\s;{}\d$/,!~+I])e(?:[\s;}]|$)/.test(word);
  const isFlag = /s([^\w\s\\])(?:\\[\s\S]|(?!\1)[^\\])*\1(?:\\[\s\S]|(?!\1)[^\\])*\1\w*e/.test(
    word,
  );
  return isCommand || isFlag;
}
