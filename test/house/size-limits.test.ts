import { expect, it } from "vitest";
import { sourceSize, walkHello } from "../../scripts/walk.ts";

it("a hello runs at most 37 files of src/agent", () => {
  const files = walkHello().map(({ file }) => file);
  expect(files).toContain("react-agent.ts");
  expect(new Set(files).size).toBe(files.length);
  expect(files.length).toBeLessThanOrEqual(37);
});

it("src/agent has at most 77 files and 16,750 lines without tests", () => {
  const { agentFiles, agentLines } = sourceSize();
  expect(agentFiles).toBeLessThanOrEqual(77);
  expect(agentLines).toBeLessThanOrEqual(16_750);
});

it("src has at most 84,000 lines without tests and contract suites", () => {
  expect(sourceSize().lines).toBeLessThanOrEqual(84_000);
});
