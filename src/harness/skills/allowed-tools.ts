import { decide, isCommandPattern } from "../../agent/index.ts";

/** A tool that a skill allows: an allow rule. */
export interface AllowedTool {
  /** The name or glob of one of our tools. */
  readonly tool: string;
  /** The commands that the skill allows, such as `git log *` or `npm test`; only for `execute`. */
  readonly command?: string;
}

/** The names that skills use for tools which exist here under another name. */
const ourNames: Readonly<Record<string, string>> = {
  bash: "execute",
  shell: "execute",
  read: "read_file",
  write: "write_file",
  edit: "edit_file",
  multiedit: "edit_file",
  grep: "grep_files",
  glob: "glob_files",
  ls: "list_files",
  task: "agent_spawn",
};

/** Tools that no skill takes away: they only read, keep the agent's own lists, or end what the task has started. */
const alwaysAllowed: ReadonlySet<string> = new Set([
  ...["load_skill", "read_file", "list_files", "glob_files", "grep_files", "generate_response"],
  ...["memory_search", "memory_get", "session_search", "session_list", "session_history"],
  ...["task_output", "task_wait", "task_cancel", "task_list", "todo_write", "exit_plan"],
]);

const maxEntries = 100;
const entryPattern = /^([A-Za-z0-9_*?.-]+)(?:\(([^()]*)\))?$/;

type Read =
  | { readonly tools: readonly AllowedTool[] | undefined; readonly warnings: readonly string[] }
  | { readonly problem: string };

/** Reads `allowed-tools`: a list, or a string with spaces or commas between entries. */
export function readAllowedTools(value: unknown): Read {
  if (value === null || value === undefined) return { tools: undefined, warnings: [] };
  const problem = "`allowed-tools` must be a string or a list of strings.";
  if (typeof value !== "string" && !Array.isArray(value)) return { problem };
  const given: readonly unknown[] = typeof value === "string" ? splitEntries(value) : value;
  if (given.length > maxEntries) {
    return { problem: `\`allowed-tools\` has more than ${maxEntries} entries.` };
  }
  const tools: AllowedTool[] = [];
  const warnings: string[] = [];
  for (const entry of given) {
    if (typeof entry !== "string") return { problem };
    const found = entryPattern.exec(entry.trim());
    if (!found) return { problem: `\`allowed-tools\` has the entry ${JSON.stringify(entry)}.` };
    const [, name = "", command] = found;
    const tool = ourName(name);
    if (command === undefined || command.trim() === "*") tools.push({ tool });
    else {
      const pattern = command.trim().replace(/\s*:\*$/, " *");
      const problem =
        tool !== "execute"
          ? "only a shell can have a pattern in parentheses"
          : isCommandPattern(pattern)
            ? undefined
            : "its pattern is not one simple command";
      // To allow the whole tool would allow more than the skill asks for.
      if (problem === undefined) tools.push({ tool, command: pattern });
      else
        warnings.push(
          `The entry ${JSON.stringify(entry)} of allowed-tools is ignored: ${problem}.`,
        );
    }
  }
  return { tools, warnings };
}

/** Splits at spaces and commas that are not inside parentheses. */
function splitEntries(text: string): readonly string[] {
  return text.match(/[^\s,(]+(?:\([^)]*\)?)?|[^\s,]/g) ?? [];
}

function ourName(name: string): string {
  // As other agents name the tools of MCP servers.
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(name) ?? [];
  if (server !== undefined && tool !== undefined) return `${server}_${tool}`;
  const folded = name.toLowerCase();
  return Object.hasOwn(ourNames, folded) ? (ourNames[folded] as string) : name;
}

/** Whether the lists of the skills that a task has loaded allow a call; they add up. */
export function isAllowedBySkills(
  lists: readonly (readonly AllowedTool[])[],
  { name, input }: { readonly name: string; readonly input: unknown },
): boolean {
  if (lists.length === 0 || alwaysAllowed.has(name)) return true;
  return decide([{ allow: lists.flat() }], name, input) === "allow";
}
