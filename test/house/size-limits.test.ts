import { expect, it } from "vitest";
import { sourceSize, walkHello } from "../../scripts/walk.ts";

it("a hello runs at most 35 files of src/agent", () => {
  const files = walkHello().map(({ file }) => file);
  expect(files).toContain("react-agent.ts");
  expect(new Set(files).size).toBe(files.length);
  expect(files.length).toBeLessThanOrEqual(35);
});

it("src/agent has at most 75 files and 16,000 lines without tests", () => {
  const { agentFiles, agentLines } = sourceSize();
  expect(agentFiles).toBeLessThanOrEqual(75);
  expect(agentLines).toBeLessThanOrEqual(16_000);
});

it("src has at most 78,000 lines without tests and contract suites", () => {
  expect(sourceSize().lines).toBeLessThanOrEqual(78_000);
});
