import type { Annotation, WireImageBlock, WireTextBlock } from "../../../src/protocol/task.ts";
import type { OpenItem } from "./open-item.ts";
import { at, copy } from "./open-item.ts";
import { chunks, citingText } from "./text.ts";
import type { Actor, Move, PoolEntry, World } from "./world.ts";
import { mint } from "./world.ts";

/** The events of one block of an item: mostly text, sometimes an image or a file. */
export function blockMoves(
  world: World,
  actor: Actor,
  item: () => OpenItem,
  index: number,
  options: { readonly cites?: readonly PoolEntry[]; readonly reference?: number | undefined },
): Move[] {
  const { cites = [], reference } = options;
  const kind = world.random.next();
  const identity = {
    ...((reference !== undefined || world.random.chance(0.2)) && { id: mint(world, "blk") }),
    ...(reference !== undefined && { reference_id: reference }),
  };
  const place = () => ({ ...at(item()), block_index: index });
  if (kind < 0.7) return textMoves(world, cites, item, place, identity);
  if (kind < 0.9) return imageMoves(world, item, place, identity);
  return [
    () => {
      const block = {
        type: "file" as const,
        url: `task://${actor.id}/blobs/${mint(world, "sha")}`,
        filename: "report.csv",
        mime_type: "text/csv",
        ...identity,
      };
      item().shown.block_list?.push({ ...block });
      return { type: "task.block.done", ...place(), item: block };
    },
  ];
}

type Place = () => {
  readonly item_id: string;
  readonly output_index: number;
  readonly block_index: number;
};
type Identity = { readonly id?: string; readonly reference_id?: number };

function textMoves(
  world: World,
  cites: readonly PoolEntry[],
  item: () => OpenItem,
  place: Place,
  identity: Identity,
): Move[] {
  const { random } = world;
  const { text, annotations } = citingText(random, cites);
  const whole: WireTextBlock = {
    type: "text",
    text,
    ...(annotations.length > 0 && { annotations }),
    ...identity,
  };
  const shown: { type: "text"; text: string; annotations?: Annotation[] } = {
    type: "text",
    text: "",
    ...identity,
  };
  const finish: Move = () => {
    Object.assign(shown, copy(whole));
    return { type: "task.text.done", ...place(), item: whole };
  };
  if (random.chance(0.25)) {
    return [
      () => {
        item().shown.block_list?.push(shown);
        return finish();
      },
    ];
  }
  const moves: Move[] = [
    () => {
      item().shown.block_list?.push(shown);
      return { type: "task.text.added", ...place(), item: { type: "text", text: "", ...identity } };
    },
  ];
  const early = random.chance(0.7);
  let length = 0;
  let annotated = 0;
  for (const delta of chunks(random, text)) {
    length += delta.length;
    moves.push(() => {
      shown.text += delta;
      return { type: "task.text.delta", ...place(), delta };
    });
    for (
      let annotation = annotations[annotated];
      early && annotation !== undefined && annotation.end_index <= length;
      annotation = annotations[++annotated]
    ) {
      moves.push(annotationMove(shown, place, annotation, annotated));
    }
  }
  return [...moves, finish];
}

function annotationMove(
  shown: { annotations?: Annotation[] },
  place: Place,
  annotation: Annotation,
  annotation_index: number,
): Move {
  return () => {
    shown.annotations = [...(shown.annotations ?? []), annotation];
    return { type: "task.text.annotation.added", ...place(), annotation_index, annotation };
  };
}

function imageMoves(world: World, item: () => OpenItem, place: Place, identity: Identity): Move[] {
  const shown: WireImageBlock & { image_url: { url: string } } = {
    type: "image",
    image_url: { url: "" },
    ...identity,
  };
  const url = `task://blobs/${mint(world, "sha")}`;
  const show: Move = () => {
    item().shown.block_list?.push(shown);
    const block = { type: "image", image_url: { url: "" }, ...identity } as const;
    return { type: "task.image.added", ...place(), item: block };
  };
  const previews = Array.from(
    { length: world.random.int(0, 3) },
    (_, nth): Move =>
      () => {
        shown.image_url = { url: `data:image/png;base64,${"iVBORw0K".repeat(nth + 1)}` };
        return {
          type: "task.image.delta",
          ...place(),
          partial_image_index: nth,
          item: copy(shown),
        };
      },
  );
  const done: Move = () => {
    Object.assign(shown, { image_url: { url }, mime_type: "image/png" });
    return { type: "task.image.done", ...place(), item: copy(shown) };
  };
  if (previews.length > 0 || world.random.chance(0.5)) return [show, ...previews, done];
  return [
    () => {
      item().shown.block_list?.push(shown);
      return done();
    },
  ];
}
