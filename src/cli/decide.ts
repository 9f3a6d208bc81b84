import type { Answer, Approval } from "../contract/index.ts";
import type { Interactive } from "./interactive.ts";
import { printable } from "./text.ts";

/** Lets a person decide about a request, whose arguments are on the screen already. */
export async function decideHere(
  approval: Approval,
  terminal: Interactive,
  signal: AbortSignal,
): Promise<Answer> {
  const { kind, call } = approval;
  if (kind === "question" || kind === "external") {
    let answer: string | undefined;
    while (answer === undefined) answer = await terminal.askLine("Your answer:", "", signal);
    return approval.answer(answer);
  }
  const question =
    kind === "stop" && call.name === ""
      ? "Continue? [y]es  [n]o"
      : "Allow it? [y]es  [e]dit the arguments  [n]o  [a]lways in this session";
  for (;;) {
    const key = await terminal.askKey(
      question,
      [...question.matchAll(/\[(\w)\]/g)].map(([, letter = ""]) => letter),
      signal,
    );
    if (key === "y") return approval.approve();
    if (key === "a") return approval.approve({ always: true });
    if (key === "n") {
      const reason = await terminal.askLine(
        "Why not? The agent reads the reason. Leave it empty for none.",
        "",
        signal,
      );
      if (reason === undefined) continue;
      return approval.deny(reason.trim() === "" ? "The user denied this." : reason.trim());
    }
    const typed = await terminal.askLine(
      "The arguments, as JSON:",
      JSON.stringify(call.input ?? {}),
      signal,
    );
    if (typed === undefined) continue;
    try {
      return approval.edit(JSON.parse(typed));
    } catch (error) {
      terminal.screen.print([`The arguments are not JSON: ${printable((error as Error).message)}`]);
    }
  }
}

/** Decides without a person: `--yes` approves everything, anything else denies. */
export function decideAlone(
  approval: Approval,
  yes: boolean,
  note: (line: string) => void,
): Promise<Answer> {
  const request = printable(`${approval.path ?? "lead"} wants to call ${approval.call.name}`);
  if (yes) {
    note(`${request}: approved by --yes.`);
    return Promise.resolve(approval.approve());
  }
  note(`${request}: denied, because there is no terminal for the question. Pass --yes to approve.`);
  return Promise.resolve(approval.deny("No user was available to approve this."));
}
