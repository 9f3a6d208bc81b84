import { cite, type Evidence } from "./evidence.ts";
import { fillInput } from "./fill-input.ts";
import { withoutFrame } from "./passages.ts";
import type { Move, OfferedTool, View } from "./view.ts";

/** Hands the text, with its sources, to a tool that publishes, when the system prompt or the user asks for it. */
export function publishMove(
  view: View,
  text: string,
  evidence: readonly Evidence[],
): Move | undefined {
  const tool = publisherIn(view);
  if (tool === undefined || view.calls.some(({ name }) => name === tool.name)) return undefined;
  const input = fillInput(tool, { title: view.question, text: reportText(text, evidence) });
  return { thinking: "The text is ready. I publish it.", calls: [{ name: tool.name, input }] };
}

/** What became of it. */
export function publishNote(view: View): readonly string[] {
  const name = publisherIn(view)?.name;
  const call = view.calls.find((made) => made.name === name);
  if (call === undefined) return [];
  return [call.isError ? `The report is not published: ${call.output}` : withoutFrame(call.output)];
}

function publisherIn({ tools, system, question }: View): OfferedTool | undefined {
  return tools.find(
    ({ name }) => name.includes("publish") && `${system} ${question}`.includes(name),
  );
}

/** The text with numbers of its own, and under it where each stands. */
function reportText(text: string, evidence: readonly Evidence[]): string {
  const numbers = new Map<string, number>();
  const places = new Map(evidence.map((one, index) => [index, one.place ?? `source ${one.id}`]));
  const indexed = evidence.map((one, index) => ({ ...one, id: index }));
  const body = cite(text, indexed).replace(/\[\^(\d+)\]/g, (_, index: string) => {
    const place = places.get(Number(index)) ?? "";
    const number = numbers.get(place) ?? numbers.size + 1;
    numbers.set(place, number);
    return ` [${number}]`;
  });
  const sources = [...numbers].map(([place, number]) => `${number}. ${place}`);
  return [body, "Sources", sources.join("\n")].join("\n\n");
}
