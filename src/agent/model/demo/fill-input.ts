import type { OfferedTool } from "./view.ts";

/** What a tool may be told, by what it is. */
export interface Material {
  readonly title: string;
  readonly text: string;
}

/** An input for a tool, from its schema: the names of its properties say which of the material they take. */
export function fillInput(tool: OfferedTool, material: Material): Record<string, unknown> {
  const { properties = {}, required = [] } = tool.inputSchema as {
    properties?: Readonly<Record<string, { type?: unknown; enum?: readonly unknown[] }>>;
    required?: readonly string[];
  };
  const input: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(properties)) {
    const value = valueFor(name, schema, material);
    if (value !== undefined && (required.includes(name) || isTextual(name))) input[name] = value;
  }
  return input;
}

function isTextual(name: string): boolean {
  return /title|question|query|content|body|text|markdown|report/i.test(name);
}

function valueFor(
  name: string,
  { type, enum: choices }: { type?: unknown; enum?: readonly unknown[] },
  { title, text }: Material,
): unknown {
  if (choices !== undefined) {
    return choices.find((choice) => text.toLowerCase().includes(String(choice))) ?? choices[0];
  }
  if (type === "number" || type === "integer") {
    return Number(/-?\d+(?:\.\d+)?/.exec(text)?.[0] ?? 1);
  }
  if (type === "boolean") return true;
  if (type !== "string") return undefined;
  if (/title|subject|name|question|query/i.test(name)) return title;
  if (/content|body|text|markdown|report|message|prompt/i.test(name)) return text;
  if (/path|file/i.test(name)) return /[\w-]+(?:\/[\w.-]+)*\.\w+/.exec(text)?.[0] ?? title;
  // A place, a person, a thing: what the question writes with a capital, or its last word.
  const capitals = text.match(/(?<=\S\s)\p{Lu}[\p{L}-]+(?:\s\p{Lu}[\p{L}-]+)*/u)?.[0];
  return capitals ?? text.match(/[\p{L}\p{N}-]+/gu)?.at(-1);
}
