import { join } from "node:path";
import { demoModel } from "../../../sample/demo/demo.ts";
import { type Citation, citedText } from "../../../src/cli/citations.ts";
import { answerOf } from "../../../src/cli/ending.ts";
import { sampleTeam } from "../../../src/cli/sample-team.ts";
import { TaskTree } from "../../../src/protocol/reduce.ts";
import type { Tree } from "../../../src/protocol/task.ts";

const workspace = join(import.meta.dirname, "../../../sample/workspace");

/** An answer of the sample team. */
export interface LibraryAnswer {
  readonly text: string;
  readonly citations: readonly Citation[];
  readonly tree: Tree;
}

/** Starts the sample team with a model that does not pause. Each question has a session of its own. */
export function libraryTeam() {
  const model = demoModel("analyst", { clock: { sleep: async () => {} } });
  const team = sampleTeam({ model, workspace, store: "memory" });
  let sessions = 0;
  return {
    team,
    async ask(question: string, after?: string): Promise<LibraryAnswer> {
      const sessionId = `session-${++sessions}`;
      if (after !== undefined) await team.call(after, { sessionId });
      const fold = new TaskTree();
      for await (const event of team.run(question, { sessionId, until: "tree" })) fold.apply(event);
      const { tree } = fold;
      const answer = answerOf(tree);
      const none = { text: "", citations: [] };
      return { ...(answer === undefined ? none : citedText(tree, answer)), tree };
    },
  };
}
