import { isTerminal, type Task, type Tree, taskOf } from "rivulet/protocol";
import { labelOf } from "./agents.ts";

const names = new WeakMap<object, ReadonlyMap<string, string>>();

/** The name that a person types to reach an agent: `critic`, or `researcher-2/critic` where two have the name. */
export function mentionOf(tree: Tree, taskId: string): string {
  const { tasks } = tree;
  const found = names.get(tasks) ?? nameAll(tree);
  names.set(tasks, found);
  return found.get(taskId) ?? "agent";
}

/** Lengthens equal names by the agents above, until no two agents share one. */
function nameAll(tree: Tree): ReadonlyMap<string, string> {
  const segment = (id: string) => labelOf(tree, id).replace(/\s+/g, "-");
  let open = Object.keys(tree.tasks).map((id) => ({
    id,
    name: segment(id),
    above: taskOf(tree, id)?.parentTaskId,
  }));
  const found = new Map<string, string>();
  while (open.length > 0) {
    const counts = new Map<string, number>();
    for (const { name } of open) counts.set(name, (counts.get(name) ?? 0) + 1);
    const next: typeof open = [];
    for (const entry of open) {
      const { id, name, above } = entry;
      const parent = taskOf(tree, above);
      if (counts.get(name) === 1 || parent === undefined) found.set(id, name);
      else next.push({ id, name: `${segment(parent.id)}/${name}`, above: parent.parentTaskId });
    }
    open = next;
  }
  return found;
}

/** The agents that can be steered and that a name, or the beginning of one, fits; whole names come first. */
export function mentionedBy(tree: Tree, typed: string): readonly Task[] {
  const wanted = typed.toLowerCase();
  const rank = ({ id }: Task) => {
    const name = mentionOf(tree, id).toLowerCase();
    const last = name.slice(name.lastIndexOf("/") + 1);
    if (name === wanted) return 0;
    if (name.startsWith(wanted)) return 1;
    return last.startsWith(wanted) ? 2 : 3;
  };
  return Object.values(tree.tasks)
    .filter((task) => !isTerminal(task.status) && rank(task) < 3)
    .toSorted((one, other) => rank(one) - rank(other));
}

/** A text that begins with `@name`, without the name, and the agents that have it. */
export function readMention(
  tree: Tree,
  text: string,
): { readonly tasks: readonly Task[]; readonly rest: string } | undefined {
  const [, typed = "", rest = ""] = /^@([\p{L}\p{N}_/.-]+)\s+(\S.*)$/su.exec(text) ?? [];
  if (typed === "") return undefined;
  const wanted = typed.toLowerCase();
  const fitting = mentionedBy(tree, typed).filter(({ id }) => {
    const name = mentionOf(tree, id).toLowerCase();
    return name === wanted || name.endsWith(`/${wanted}`);
  });
  const whole = fitting.filter(({ id }) => mentionOf(tree, id).toLowerCase() === wanted);
  const tasks = whole.length > 0 ? whole : fitting;
  return tasks.length === 0 ? undefined : { tasks, rest };
}
