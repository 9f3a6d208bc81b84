import type { ToolResultBlock, ToolUseBlock } from "../protocol/message.ts";

/** A call as it was run. */
export type RanCall = Pick<ToolUseBlock, "name" | "input" | "raw">;

interface RanMark {
  readonly ran?: RanCall | null;
}

/** The mark on a result that somebody else gave in place of the tool. */
export const notRun: RanMark = Object.freeze({ ran: null });

/** The mark on a result whose call did not run as the model sent it; `ran` is undefined when its tool did not run at all. */
export function ranMark(sent: ToolUseBlock, ran: RanCall | undefined): RanMark {
  if (ran === undefined) return notRun;
  const { name, input } = ran;
  return name === sent.name && input === sent.input ? {} : { ran: { name, input } };
}

/** What a call that has its result ran as; undefined when somebody else gave the result. */
export function ranCall(sent: ToolUseBlock, result: ToolResultBlock): RanCall | undefined {
  const { ran = sent } = (result.metadata ?? {}) as RanMark;
  return ran ?? undefined;
}
