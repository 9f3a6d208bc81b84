import { Validator } from "@cfworker/json-schema";
import { describe, expect, it } from "vitest";
import type { Answer } from "../contract/agent.ts";
import type { Block } from "../contract/message.ts";
import { boundedAnswer } from "./answer.ts";
import { taskStreamSchema } from "./json-schema.ts";

const validator = new Validator(
  { $ref: "#/$defs/Answer", $defs: structuredClone(taskStreamSchema.$defs) },
  "2020-12",
);

function accepts(value: unknown): boolean {
  const zod = boundedAnswer.safeParse(value).success;
  expect(validator.validate(value).valid, `JSON Schema, where zod says ${zod}`).toBe(zod);
  return zod;
}

const blocks: readonly Block[] = [
  { type: "text", text: "14:20", tags: ["added_by_reference_manager"] },
  { type: "thinking", text: "tide, then wind", signature: "c2ln" },
  { type: "hint", text: "The buoy woke up.", metadata: { taskId: "call_1" } },
  { type: "image", source: { data: "iVBORw0KGgo=", mimeType: "image/png" } },
  { type: "file", source: { url: "https://harbour.example/tides.csv" } },
  { type: "tool_use", id: "call_2", name: "ask_buoy", input: {}, raw: "{", providerCallId: "t_1" },
  {
    type: "tool_result",
    id: "call_2",
    name: "ask_buoy",
    output: [{ type: "text", text: "awake" }],
    state: "success",
    metadata: { ms: 12 },
  },
  {
    type: "suspension",
    callId: "call_2",
    kind: "approval",
    approvalId: "apr_1",
    reason: "asks first",
    expiresAt: 1_767_229_200_000,
  },
  {
    type: "answer",
    approvalId: "apr_1",
    callId: "call_2",
    decision: "answer",
    input: null,
    output: [{ type: "text", text: "yes" }],
    state: "success",
    reason: "it may",
    by: "user:7",
    always: true,
  },
  { type: "compaction", summary: "They spoke of tides.", keepFrom: 12 },
];

const answer: Answer = {
  type: "answer",
  approvalId: "apr_1",
  taskId: "call_1",
  rootTaskId: "task_1",
  decision: "answer",
  input: { buoy: 3 },
  output: blocks,
  state: "error",
  reason: "it sleeps lightly",
  always: false,
};

const required = ["type", "approvalId", "taskId", "rootTaskId", "decision"];
const requiredOfBlock: Readonly<Record<Block["type"], readonly string[]>> = {
  text: ["type", "text"],
  thinking: ["type", "text"],
  hint: ["type", "text"],
  image: ["type", "source"],
  audio: ["type", "source"],
  video: ["type", "source"],
  file: ["type", "source"],
  tool_use: ["type", "id", "name", "input"],
  tool_result: ["type", "id", "name", "output", "state"],
  suspension: ["type", "callId", "kind", "approvalId"],
  answer: ["type", "approvalId", "callId", "decision"],
  compaction: ["type", "summary", "keepFrom"],
};

function without(value: object, key: string): object {
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
}

describe("an answer", () => {
  it("is returned unchanged, with unknown fields", () => {
    const extended = { ...answer, later: [1] };
    expect(boundedAnswer.parse(extended)).toEqual(extended);
    expect(accepts(extended)).toBe(true);
  });

  it("requires each required field and no optional one", () => {
    for (const key of Object.keys(answer)) {
      expect(accepts(without(answer, key)), key).toBe(!required.includes(key));
    }
  });

  it("checks the type of each field", () => {
    for (const key of Object.keys(answer)) {
      expect(accepts({ ...answer, [key]: 7 }), key).toBe(key === "input");
    }
    expect(accepts({ ...answer, approvalId: "" })).toBe(false);
    expect(accepts({ ...answer, decision: "perhaps" })).toBe(false);
  });

  it.each(blocks.map((block) => [block.type, block] as const))(
    "holds a %s block",
    (type, block) => {
      expect(accepts({ ...answer, output: [block] })).toBe(true);
      for (const key of Object.keys(block)) {
        const needed = requiredOfBlock[type].includes(key);
        expect(accepts({ ...answer, output: [without(block, key)] }), `no ${key}`).toBe(!needed);
        const spoiled = { ...block, [key]: key === "keepFrom" || key === "expiresAt" ? "x" : 7 };
        expect(accepts({ ...answer, output: [spoiled] }), `wrong ${key}`).toBe(key === "input");
      }
    },
  );

  it("refuses a block of an unknown type", () => {
    expect(accepts({ ...answer, output: [{ type: "poll" }] })).toBe(false);
  });

  it("refuses an answer that nests too deep", () => {
    let block: Block = { type: "text", text: "14:20" };
    for (let depth = 0; depth < 50_000; depth++) {
      block = {
        type: "tool_result",
        id: "call_2",
        name: "nest",
        output: [block],
        state: "success",
      };
    }
    const result = boundedAnswer.safeParse({ ...answer, output: [block] });
    expect(result.error?.issues[0]?.message).toContain("nested deeper");
  });
});
