import { z } from "zod";
import { annotation, imageBlock, textBlock, wireBlock } from "./block.ts";
import { logEvent, onBlock } from "./envelope.ts";
import { count } from "./scalar.ts";

/** A block of a tool result or a message opens, fills and closes. */
export const blockEvents = {
  "task.text.added": logEvent("task.text.added", "A text block opens.", {
    ...onBlock,
    item: textBlock,
  }),
  "task.text.delta": logEvent("task.text.delta", "Text to append; never half a surrogate pair.", {
    ...onBlock,
    delta: z.string(),
  }),
  "task.text.annotation.added": logEvent(
    "task.text.annotation.added",
    "A citation, as soon as its marker is complete.",
    { ...onBlock, annotation_index: count, annotation },
  ),
  "task.text.done": logEvent("task.text.done", "A text block, whole.", {
    ...onBlock,
    item: textBlock,
  }),
  "task.image.added": logEvent("task.image.added", "An image's place, before the image.", {
    ...onBlock,
    item: imageBlock,
  }),
  "task.image.delta": logEvent(
    "task.image.delta",
    "A complete preview that REPLACES the one before it; a lower partial_image_index is ignored.",
    { ...onBlock, partial_image_index: count, item: imageBlock },
  ),
  "task.image.done": logEvent("task.image.done", "The image itself.", {
    ...onBlock,
    item: imageBlock,
  }),
  "task.block.done": logEvent("task.block.done", "A block of any other kind, whole.", {
    ...onBlock,
    item: wireBlock,
  }),
};
