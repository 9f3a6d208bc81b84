import { z } from "zod";
import { define } from "./definitions.ts";
import { opaque } from "./opaque.ts";
import { count, id, textIndex } from "./scalar.ts";

/** Only parts that are still being sent say so; nothing else is allowed there. */
export const openStatus = z.literal("in_progress");

/** Twin of `Annotation`. */
export const annotation = define(
  "Annotation",
  "A citation: the half-open range [start_index, end_index) of the block's text is its marker.",
  z.looseObject({
    type: z.literal("reference_to_block"),
    reference_id: count,
    start_index: textIndex,
    end_index: textIndex,
    marker: z.string().exactOptional(),
    target: define(
      "BlockAddress",
      "One block of one item of one task.",
      z.looseObject({ task_id: id, item_id: id, block_index: count }),
    ).exactOptional(),
  }),
);

const base = {
  id: id.exactOptional(),
  reference_id: count.exactOptional(),
  status: openStatus.exactOptional(),
};

/** Twin of `WireTextBlock`. */
export const textBlock = define(
  "TextBlock",
  "Text, with what it cites.",
  z.looseObject({
    type: z.literal("text"),
    text: z.string(),
    annotations: z.array(annotation).exactOptional(),
    ...base,
  }),
);

/** Twin of `WireImageBlock`. */
export const imageBlock = define(
  "ImageBlock",
  "An image; an empty url means that it is still to come.",
  z.looseObject({
    type: z.literal("image"),
    image_url: z.looseObject({ url: z.string() }),
    mime_type: z.string().exactOptional(),
    width: count.exactOptional(),
    height: count.exactOptional(),
    partial_image_index: count.exactOptional(),
    ...base,
  }),
);

const fileBlock = define(
  "FileBlock",
  "A file or a recording, by reference.",
  z.looseObject({
    type: z.enum(["file", "audio", "video"]),
    url: z.string(),
    filename: z.string().exactOptional(),
    mime_type: z.string().exactOptional(),
    ...base,
  }),
);

const taskBlock = define(
  "TaskBlock",
  "The place in a list of blocks where a child's output belongs.",
  z.looseObject({ type: z.literal("task"), task_id: id, ...base }),
);

const omittedBlock = define(
  "OmittedBlock",
  "The place of a block that a filtered stream left out.",
  z.looseObject({ type: z.literal("omitted"), ...base }),
);

const opaqueBlock = opaque(
  "OpaqueBlock",
  "A block of a type that this version does not know, kept as it came.",
  ["text", "image", "file", "audio", "video", "task", "omitted"],
  base,
);

/** Twin of `WireBlock`. */
export const wireBlock = define(
  "Block",
  "A piece of an item, as people see it.",
  z.union([
    z.discriminatedUnion("type", [textBlock, imageBlock, fileBlock, taskBlock, omittedBlock]),
    opaqueBlock,
  ]),
);
