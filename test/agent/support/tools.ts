import { z } from "zod";
import type { Tool, ToolContext } from "../../../src/index.ts";
import { tool } from "../../../src/index.ts";

const input = z.object({ n: z.number() });
type Numbered = z.infer<typeof input>;

/** What the tools of a cast have done: the test's own memory, beside everything that is tested. */
export class Executions {
  /** How often each call was executed. */
  readonly byCall = new Map<string, number>();
  /** How many requests to models and executions of tools have begun. */
  started = 0;
  /** Calls that were executed although their result was recorded. */
  readonly again: string[] = [];

  note(name: string, { callId, messages }: ToolContext): void {
    this.started += 1;
    this.byCall.set(callId, (this.byCall.get(callId) ?? 0) + 1);
    const results = messages.flatMap(({ content }) => content);
    if (results.some((block) => block.type === "tool_result" && block.id === callId)) {
      this.again.push(`${name} ${callId}`);
    }
  }
}

/** Ways in which a tool can behave; the name says which. Everything they return depends on their input alone. */
const ways: Readonly<
  Record<string, (input: Numbered, context: ToolContext) => unknown | Promise<unknown>>
> = {
  echo: ({ n }) => `echo ${n}`,
  slow: async ({ n }) => {
    await turns(n % 7);
    return `slow ${n}`;
  },
  fail: ({ n }) => {
    throw new Error(`no ${n}`);
  },
  alone: async ({ n }) => {
    await turns(1);
    return { alone: n };
  },
  cite: ({ n }) => `fact ${n}`,
  stream: async ({ n }, context) => {
    context.emit(`str`);
    context.progress({ progress: 1, total: 2 });
    await turns(1);
    context.emit(`eam \ud83c`);
    context.emit(`\udf0a ${n}`);
    return `stream ${n}`;
  },
  picture: async ({ n }, context) => {
    context.emit("Here: ");
    context.emit({ type: "image", source: { data: "AA==", mimeType: "image/png" } });
    await turns(1);
    context.emit({ type: "image", source: { url: `https://example.com/${n}.png` } });
    context.emit({ type: "file", source: { url: `https://example.com/${n}.csv` } });
    return `picture ${n}`;
  },
  nothing: () => undefined,
  both: ({ n }) => ({ content: `model ${n}`, display: `people ${n}` }),
  again: ({ n }) => `again ${n}`,
  ask: ({ n }) => `asked ${n}`,
  question: ({ n }, context) => context.suspend(`What about ${n}?`),
  tell: ({ n }, context) => {
    context.emit(`Looking at ${n}.`);
    return context.suspend(`And ${n}?`);
  },
};

/** The tools that plans may call, besides those that are agents. */
export const toolNames: readonly string[] = [...Object.keys(ways), "outside"];

/** The tools, which note what they do. */
export function makeTools(executions: Executions): readonly Tool[] {
  const made = Object.entries(ways).map(([name, way]) =>
    tool({
      name,
      description: `Does ${name}.`,
      input,
      needsApproval: name === "ask",
      idempotent: name === "again",
      exclusive: name === "alone",
      citable: name === "cite" || name === "stream" || name === "picture",
      execute(given, context) {
        executions.note(name, context);
        return way(given, context);
      },
    }),
  );
  return [...made, tool({ name: "outside", description: "Runs elsewhere.", input })];
}

/** Lets the event loop go round. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
