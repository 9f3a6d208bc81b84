import { z } from "zod";
import { RivuletError } from "../protocol/error.ts";
import type { FileContent } from "./filesystem/filesystem.ts";
import type { McpServerOptions, McpServersByName } from "./mcp-servers.ts";

/** The file of a workspace that says which tools its agent has besides its own. */
export const toolsFileName = "tools.json";

/** How `tools.json` is read. */
export interface ToolsFileOptions {
  /** What `${NAME}` stands for in the values of `env` and `headers`: the only way to a secret from that file. */
  readonly variables?: Readonly<Record<string, string | undefined>>;
}

/** What `tools.json` says. */
export interface ToolsFile {
  readonly servers: McpServersByName;
  /** Globs of tool names; absent: all are allowed. */
  readonly allow?: readonly string[];
  readonly deny: readonly string[];
}

const texts = z.record(z.string(), z.string());
const pattern = z.string().min(1);
const prefix = z.string().optional();
const program = z.strictObject({
  command: z.string().min(1),
  args: z.array(z.string()).optional(),
  env: texts.optional(),
  prefix,
});
const address = z.strictObject({ url: z.url(), headers: texts.optional(), prefix });
const server = z.looseObject({}).transform((value, context) => {
  const schema = "url" in value ? address : program;
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  for (const issue of read.error.issues) context.addIssue({ ...issue } as never);
  return z.NEVER;
});
const file = z.strictObject({
  mcpServers: z.record(z.string(), server).default({}),
  allow: z.array(pattern).optional(),
  deny: z.array(pattern).default([]),
});

/** Reads `tools.json`; what is wrong with it is an error that says what and where. */
export function readToolsFile({ data }: FileContent, options: ToolsFileOptions): ToolsFile {
  const read = file.safeParse(parse(new TextDecoder().decode(data)));
  if (!read.success) {
    const problems = read.error.issues.map(
      ({ path, message }) => `${path.join(".") || "the file"}: ${message}`,
    );
    throw invalid(problems.join("; "));
  }
  const { mcpServers, allow, deny } = read.data;
  const servers = Object.entries(mcpServers).map(([name, one]): [string, McpServerOptions] => {
    const where = `mcpServers.${name}`;
    return "url" in one
      ? [name, { ...one, ...filled("headers", one.headers, where, options) }]
      : [name, { ...one, ...filled("env", one.env, where, options) }];
  });
  return { servers: Object.fromEntries(servers), deny, ...(allow && { allow }) };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid((error as Error).message);
  }
}

/** The values with their variables filled in. One that nobody has given is an error: a server must not see the name. */
function filled<Field extends string>(
  field: Field,
  values: Readonly<Record<string, string>> | undefined,
  where: string,
  { variables = {} }: ToolsFileOptions,
): Partial<Record<Field, Readonly<Record<string, string>>>> {
  if (values === undefined) return {};
  const entries = Object.entries(values).map(([key, value]) => [
    key,
    value.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => {
      const known = Object.hasOwn(variables, name) ? variables[name] : undefined;
      if (known !== undefined) return known;
      const hint = `Give it to the agent: toolsFile: { variables: { ${name}: … } }.`;
      throw invalid(`${where}.${field}.${key}: there is no variable ${name}`, hint);
    }),
  ]);
  return { [field]: Object.fromEntries(entries) } as Partial<Record<Field, never>>;
}

const shape = '{ "mcpServers": { … }, "allow": [ … ], "deny": [ … ] }, each of them optional';

function invalid(problem: string, hint = `It has this form: ${shape}.`): RivuletError {
  return new RivuletError("invalid_tools_file", `${toolsFileName}: ${problem}.`, { hint });
}
