import type { Annotation } from "../../../src/protocol/task.ts";
import type { Mutation } from "./mutate.ts";
import { edit } from "./mutate.ts";

/** Changes the annotations of one text that has some. */
function editCitations(change: (annotation: Annotation) => object): Mutation["apply"] {
  return edit(
    ["task.text.done"],
    ({ item }) => ({
      item: { ...item, annotations: item.annotations?.map((one) => ({ ...one, ...change(one) })) },
    }),
    ({ item }) => (item.annotations?.length ?? 0) > 0,
  );
}

/** Citations that point nowhere, or somewhere else. */
export const annotationMutations: readonly Mutation[] = [
  { name: "a wrong range", rule: "A1", apply: editCitations(() => ({ start_index: 0 })) },
  {
    name: "a range beyond the text",
    rule: "A1",
    apply: editCitations(({ end_index }) => ({ end_index: end_index + 9999 })),
  },
  {
    name: "a wrong range while the text grows",
    rule: "A1",
    apply: edit(
      ["task.text.annotation.added"],
      ({ annotation }) => ({
        annotation: { ...annotation, start_index: annotation.start_index + 1 },
      }),
      ({ item_id, block_index }, _, events) =>
        events.some(
          (other) =>
            other.type === "task.text.done" &&
            other.item_id === item_id &&
            other.block_index === block_index,
        ),
    ),
  },
  {
    name: "another block's number",
    rule: "A17",
    apply: editCitations(({ target }) => ({ target: { ...target, block_index: 99 } })),
  },
  {
    name: "an item that does not exist",
    rule: "A17",
    apply: editCitations(({ target }) => ({ target: { ...target, item_id: "fco_nowhere" } })),
  },
  {
    name: "an annotation is lost at the end",
    rule: "A20",
    apply: edit(
      ["task.text.done"],
      ({ item }) => ({ item: { ...item, annotations: [] } }),
      ({ item_id, block_index }, _, events) =>
        events.some(
          (other) =>
            other.type === "task.text.annotation.added" &&
            other.item_id === item_id &&
            other.block_index === block_index,
        ),
    ),
  },
  {
    name: "an annotation is numbered wrongly",
    rule: "A20",
    apply: edit(["task.text.annotation.added"], ({ annotation_index }) => ({
      annotation_index: annotation_index + 1,
    })),
  },
];
