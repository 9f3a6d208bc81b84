import { isDeepStrictEqual } from "node:util";
import type { LogEvent } from "../../../../src/protocol/event.ts";
import { materialize } from "../../../../src/protocol/materialize.ts";
import { emptyTree, reduce, TaskTree } from "../../../../src/protocol/reduce.ts";
import type { Tree } from "../../../../src/protocol/task.ts";
import { legalInterleaving, reconnects, withDuplicates } from "../../../support/deliveries.ts";
import { seededRandom } from "../../../support/random.ts";

/** Checks "one tree" on a real log: every legal delivery folds to the same tree. */
export function foldProblems(log: readonly LogEvent[], seed: number): readonly string[] {
  const random = seededRandom(seed);
  const fold = (events: readonly LogEvent[]) => reduce(emptyTree(), events);
  const whole = fold(log);
  const cuts = Array.from({ length: 5 }, () => random.int(0, log.length));
  const ways: readonly (readonly [string, Tree])[] = [
    ["one by one", log.reduce((tree, event) => reduce(tree, event), emptyTree())],
    ["in place", log.reduce((tree, event) => tree.apply(event), new TaskTree()).tree],
    ["some twice", fold(withDuplicates(random, log))],
    ["reconnects", fold(reconnects(random, log).flat())],
    ["interleaved", fold(legalInterleaving(random, log))],
    ["interleaved, some twice", fold(withDuplicates(random, legalInterleaving(random, log)))],
    ["backwards", fold(log.toReversed())],
    ...cuts.map((cut) => {
      const again = log.slice(Math.max(0, cut - random.int(0, 5)));
      return [`cut at ${cut}`, reduce(fold(log.slice(0, cut)), again)] as const;
    }),
  ];
  const { gaps, ahead, unknown, ignored, safeCursor } = whole;
  const isWhole = gaps.length + ahead.length + unknown + ignored === 0;
  const document = JSON.stringify(materialize(whole));
  return [
    ...(isWhole && safeCursor === log.length - 1 ? [] : ["the log has gaps"]),
    ...ways.flatMap(([way, tree]) =>
      isDeepStrictEqual(tree.tasks, whole.tasks) && JSON.stringify(materialize(tree)) === document
        ? []
        : [`another tree: ${way}`],
    ),
  ];
}
