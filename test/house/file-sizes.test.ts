import { expect, it } from "vitest";
import { sizeProblems } from "../../scripts/file-sizes.ts";

const lines = (count: number) => "//\n".repeat(count);

it("says which file is too long", () => {
  expect(
    sizeProblems([
      { path: "src/agent/short.ts", text: lines(350) },
      { path: "src/agent/long.ts", text: lines(351) },
      { path: "src/agent/loop.ts", text: lines(151) },
    ]),
  ).toEqual([
    "src/agent/long.ts: 351 lines, at most 350",
    "src/agent/loop.ts: 151 lines, at most 150",
  ]);
});
