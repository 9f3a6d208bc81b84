import { expect, it } from "vitest";
import { everyPage } from "./polled.ts";

it("reads on behind an empty page, from where it ended", async () => {
  const pages = [
    { approvals: [1], next: "a" },
    { approvals: [], next: "b" },
    { approvals: [2, 3] },
  ];
  const asked: (string | undefined)[] = [];
  const all = await everyPage(async (before) => {
    asked.push(before);
    return pages[asked.length - 1] ?? { approvals: [] };
  });
  expect(all).toEqual([1, 2, 3]);
  expect(asked).toEqual([undefined, "a", "b"]);
});

it("ends after twenty pages", async () => {
  let count = 0;
  await everyPage(async () => {
    count += 1;
    return { approvals: [], next: "more" };
  });
  expect(count).toBe(20);
});
