/** An agent that a lead may call. */
export interface Member {
  readonly name: string;
  readonly description: string;
}

/** Who does what in a team; a role that nobody has is absent. */
export interface Team {
  readonly researcher: string;
  readonly critic?: string;
  readonly writer?: string;
  /** Whose work is done in the background. */
  readonly background?: Member;
}

/** The team that a system prompt lists, each agent on a line of its own: `- name: description`. */
export function teamOf(system: string): Team {
  const section = /^#+ .*\bsubagents\b.*$([\s\S]*?)(?=^#+ |$(?![\s\S]))/im.exec(system)?.[1] ?? "";
  const lines = section.matchAll(/^- [`*]*([A-Za-z0-9][\w-]*)[`*]*: *(.*)$/gm);
  const members = Array.from(lines, ([, name = "", description = ""]) => ({ name, description }));
  const background = members.find(({ description }) => /\bbackground\b/i.test(description));
  const others = members.filter((member) => member !== background);
  const critic = fitting(others, /critic|check|verif/i)?.name;
  const writer = fitting(others, /writ|compos/i)?.name;
  const rest = others.filter(({ name }) => name !== critic && name !== writer);
  const researcher = fitting(rest, /research|search|find/i) ?? rest[0];
  return {
    researcher: researcher?.name ?? "general-purpose",
    ...(critic !== undefined && { critic }),
    ...(writer !== undefined && { writer }),
    ...(background !== undefined && { background }),
  };
}

/** A name says more about what somebody does than a description. */
function fitting(members: readonly Member[], role: RegExp): Member | undefined {
  return (
    members.find(({ name }) => role.test(name)) ??
    members.find(({ description }) => role.test(description))
  );
}
