import { describe, expect, it } from "vitest";
import { ReferenceParser } from "../protocol/reference-parser.ts";
import type { WireBlock } from "../protocol/task.ts";
import type { Block } from "./message.ts";
import { ReferencePool } from "./references.ts";

const text = (value: string): Block => ({ type: "text", text: value });
const open = (n: number): Block => ({
  type: "text",
  text: `<referencable-item>\nID: ${n}`,
  tags: ["added_by_reference_manager"],
});
const close: Block = {
  type: "text",
  text: "</referencable-item>",
  tags: ["added_by_reference_manager"],
};
const picture: Block = { type: "image", source: { url: "https://example.org/a.png" } };

/** A pool with one result per name. */
function poolOf(taskId: string, ...names: string[]): ReferencePool {
  const pool = new ReferencePool(taskId);
  for (const name of names) {
    pool.add({ itemId: `fco_${name}`, content: [text(name)], display: [] });
  }
  return pool;
}

describe("ReferencePool.add", () => {
  it("wraps a result for the model and numbers its blocks for people, one number for all", () => {
    const pool = new ReferencePool("task_r");
    const display: WireBlock[] = [
      { type: "text", text: "15C", id: "blk_1" },
      { type: "image", image_url: { url: "https://example.org/a.png" } },
    ];
    expect(pool.add({ itemId: "fco_r1", content: [text("15C"), picture], display })).toEqual({
      referenceId: 1,
      content: [open(1), text("15C"), picture, close],
      display: [
        { type: "text", text: "15C", id: "blk_1", reference_id: 1 },
        { type: "image", image_url: { url: "https://example.org/a.png" }, reference_id: 1 },
      ],
    });
    expect(display[0]).not.toHaveProperty("reference_id");
    expect(pool.add({ itemId: "fco_r2", content: [], display: [] })).toEqual({
      referenceId: 2,
      content: [open(2), close],
      display: [],
    });
  });

  it("returns the block that a number cites", () => {
    const pool = new ReferencePool("task_r");
    pool.add({ itemId: "fco_r1", content: [], display: [] });
    pool.add({ itemId: "fco_r2", content: [], display: [], blockIndex: 3 });
    expect(pool.target(1)).toEqual({ task_id: "task_r", item_id: "fco_r1", block_index: 0 });
    expect(pool.target(2)).toEqual({ task_id: "task_r", item_id: "fco_r2", block_index: 3 });
    expect(pool.target(3)).toBeUndefined();
    expect(new ReferenceParser(pool).push("a[^2][^3]").annotations).toMatchObject([
      { reference_id: 2, target: { item_id: "fco_r2" } },
    ]);
  });
});

describe("ReferencePool.add with a number", () => {
  const result = { itemId: "fco_r1", content: [text("a")], display: [] };
  const refused = expect.objectContaining({ name: "RivuletError", code: "invalid_references" });

  it("refuses an invalid number and does not change the pool", () => {
    const pool = poolOf("task_r", "a");
    for (const referenceId of [0, -1, 1.5, Number.NaN, 2 ** 53, "2" as unknown as number]) {
      expect(() => pool.add({ ...result, referenceId })).toThrow(refused);
    }
    expect(pool.toJSON()).toEqual(poolOf("task_r", "a").toJSON());
    expect(pool.add(result).referenceId).toBe(2);
  });

  it("refuses a number that is taken, even for the same block", () => {
    const pool = poolOf("task_r", "a");
    const before = pool.target(1);
    expect(() => pool.add({ ...result, referenceId: 1 })).toThrow(refused);
    expect(() => pool.add({ ...result, itemId: "fco_a", referenceId: 1 })).toThrow(refused);
    expect(pool.target(1)).toBe(before);
  });
});

describe("ReferencePool.reserve", () => {
  it("reserves numbers that cite nothing until they are added", () => {
    const pool = new ReferencePool("task_r");
    const [first, second] = [pool.reserve(), pool.reserve()];
    const result = (itemId: string) => ({ itemId, content: [], display: [] });
    expect(pool.add(result("fco_3")).referenceId).toBe(3);
    expect(pool.add({ ...result("fco_2"), referenceId: second }).referenceId).toBe(2);
    expect(pool.target(first)).toBeUndefined();
    expect(pool.target(second)).toMatchObject({ item_id: "fco_2" });
    expect(ReferencePool.from(pool.toJSON()).reserve()).toBe(4);
  });
});

describe("ReferencePool.embed", () => {
  it("adds the results that the child cites, in order and once each, and renumbers its message", () => {
    const parent = poolOf("task_r", "mine");
    const child = new ReferencePool("call_1");
    child.add({ itemId: "fco_a", content: [text("a"), picture], display: [] });
    child.add({ itemId: "fco_b", content: [text("b")], display: [] });
    child.add({ itemId: "fco_c", content: [text("c")], display: [], blockIndex: 1 });
    const message = [text("First[^3], second[^1], first again[^3]."), picture, text("[^1] `[^2]`")];
    expect(parent.embed(child, message)).toEqual({
      pool: [open(2), text("c"), close, open(3), text("a"), picture, close],
      message: [text("First[^2], second[^3], first again[^2]."), picture, text("[^3] `[^2]`")],
      renumbered: new Map([
        [3, 2],
        [1, 3],
      ]),
    });
    expect(parent.target(2)).toEqual({ task_id: "call_1", item_id: "fco_c", block_index: 1 });
    expect(parent.target(3)).toEqual({ task_id: "call_1", item_id: "fco_a", block_index: 0 });
    expect(parent.target(4)).toBeUndefined();
    expect(child.target(1)).toMatchObject({ item_id: "fco_a" });
  });

  it("renumbers all citations outside of code, and turns unknown numbers into text", () => {
    const child = poolOf("call_1", "a", "b");
    const message = [text("[^2][^1] [^9] `[^1]` \n```\n[^2]\n```\n[^2] \ud83c [^1")];
    expect(new ReferencePool("task_r").embed(child, message).message).toEqual([
      text("[^1][^2] \\[^9] `[^1]` \n```\n[^2]\n```\n[^1] \ud83c [^1"),
    ]);
  });

  it("never lets an unknown number of the child cite a result of the parent", () => {
    const parent = poolOf("task_r", "mine");
    const said = "See [^1][^2], \\\\[^1], \\[^1] and `[^1]`.";
    const { message, pool, renumbered } = parent.embed(new ReferencePool("call_1"), [text(said)]);
    expect(message).toEqual([text("See \\[^1]\\[^2], \\\\\\[^1], \\[^1] and `[^1]`.")]);
    expect({ pool, renumbered }).toEqual({ pool: [], renumbered: new Map() });
    parent.add({ itemId: "fco_later", content: [], display: [] });
    const [block] = message;
    const after = block?.type === "text" ? block.text : "";
    expect(new ReferenceParser(parent).push(after).annotations).toEqual([]);
    expect(parent.embed(new ReferencePool("call_2"), message).message).toEqual(message);
  });

  it("leaves a message without citations as it is", () => {
    const parent = new ReferencePool("task_r");
    const message = [text("Nothing to cite.")];
    const embedded = parent.embed(new ReferencePool("call_1"), message);
    expect(embedded).toEqual({ pool: [], message, renumbered: new Map() });
    expect(embedded.message[0]).toBe(message[0]);
  });

  it("keeps a text block's other fields", () => {
    const message: Block[] = [{ type: "text", text: "[^1]", tags: ["x"] }];
    const parent = poolOf("task_r", "mine");
    expect(parent.embed(poolOf("call_1", "a"), message).message).toEqual([
      { type: "text", text: "[^2]", tags: ["x"] },
    ]);
  });

  it("reuses the numbers of a child that is embedded again, but not those of a different child", () => {
    const parent = new ReferencePool("task_r");
    const child = poolOf("call_1", "a", "b");
    parent.embed(child, [text("[^2]")]);
    expect(parent.embed(poolOf("call_2", "x", "y"), [text("[^2]")]).message).toEqual([
      text("[^2]"),
    ]);
    expect(parent.embed(child, [text("[^1][^2]")])).toEqual({
      pool: [open(3), text("a"), close, open(1), text("b"), close],
      message: [text("[^3][^1]")],
      renumbered: new Map([
        [1, 3],
        [2, 1],
      ]),
    });
  });

  it("cites the block of a grandchild from the root", () => {
    const root = poolOf("task_r", "mine", "mine too");
    const child = poolOf("call_1", "childs");
    const grandchild = poolOf("call_2", "never cited", "deep");
    const { message } = child.embed(grandchild, [text("Deep[^2]")]);
    expect(message).toEqual([text("Deep[^2]")]);
    expect(root.embed(child, [text("Deep[^2], not [^7]")])).toMatchObject({
      pool: [open(3), text("deep"), close],
      message: [text("Deep[^3], not \\[^7]")],
    });
    expect(root.target(3)).toEqual({ task_id: "call_2", item_id: "fco_deep", block_index: 0 });
  });
});

describe("ReferencePool.toJSON and from", () => {
  it("restore a pool from plain data, embedded children included", () => {
    const pool = poolOf("task_r", "mine");
    const child = poolOf("call_1", "a", "b");
    pool.embed(child, [text("[^2]")]);
    const record = JSON.parse(JSON.stringify(pool));
    expect(record).toEqual({
      taskId: "task_r",
      entries: [
        {
          referenceId: 1,
          target: { task_id: "task_r", item_id: "fco_mine", block_index: 0 },
          content: [text("mine")],
        },
        {
          referenceId: 2,
          target: { task_id: "call_1", item_id: "fco_b", block_index: 0 },
          content: [text("b")],
          origin: { taskId: "call_1", referenceId: 2 },
        },
      ],
    });
    const restored = ReferencePool.from(record);
    expect(restored.toJSON()).toEqual(pool.toJSON());
    for (const each of [pool, restored]) {
      expect(each.embed(child, [text("[^1][^2]")]).message).toEqual([text("[^3][^2]")]);
      expect(each.add({ itemId: "fco_z", content: [], display: [] }).referenceId).toBe(4);
    }
  });

  it("continues after the highest number, even with gaps", () => {
    const { taskId, entries } = poolOf("task_r", "a", "b", "c").toJSON();
    const pool = ReferencePool.from({ taskId, entries: entries.slice(2) });
    expect(pool.target(1)).toBeUndefined();
    expect(pool.add({ itemId: "fco_d", content: [], display: [] }).referenceId).toBe(4);
  });

  it("refuses invalid and duplicate numbers", () => {
    const { taskId, entries } = poolOf("task_r", "a").toJSON();
    const [entry] = entries;
    if (entry === undefined) throw new Error("the pool has one entry");
    for (const referenceId of [0, -1, 1.5, Number.NaN, "1" as unknown as number]) {
      expect(() => ReferencePool.from({ taskId, entries: [{ ...entry, referenceId }] })).toThrow(
        expect.objectContaining({ code: "invalid_references" }),
      );
    }
    expect(() => ReferencePool.from({ taskId, entries: [entry, entry] })).toThrow(
      expect.objectContaining({ code: "invalid_references" }),
    );
  });
});
