import { catalogue } from "./catalogue.ts";
import { check } from "./check.ts";
import { compose } from "./compose.ts";
import { lead } from "./lead.ts";
import { admit, introduce, sumUp, useTool } from "./other.ts";
import { research } from "./research.ts";
import type { Move, View } from "./view.ts";

/** What it can be, in order: the first that the tools and the task are made for. */
const roles: readonly ((view: View) => Move | undefined)[] = [
  introduce,
  sumUp,
  lead,
  check,
  catalogue,
  compose,
  research,
  useTool,
];

/** What the analyst does next: a function of what it sees, and of nothing else. */
export function analyst(view: View): Move {
  for (const role of roles) {
    const move = role(view);
    if (move !== undefined) return move;
  }
  return admit();
}
