import { expect, it } from "vitest";
import { sizeProblems } from "../../scripts/file-sizes.ts";

const lines = (count: number) => "//\n".repeat(count);

it("lists files above their limit", () => {
  expect(
    sizeProblems([
      { path: "src/agent/short.ts", text: lines(500) },
      { path: "src/agent/long.ts", text: lines(501) },
      { path: "src/agent/loop/loop.ts", text: lines(151) },
    ]),
  ).toEqual([
    "src/agent/long.ts: 501 lines, at most 500",
    "src/agent/loop/loop.ts: 151 lines, at most 150",
  ]);
});
