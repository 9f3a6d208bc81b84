import { expect, it } from "vitest";
import { prependSource, sourceRef } from "./source.ts";

const born = {
  agentKey: "agent:executor:1",
  agentId: "executor",
  sessionId: "sub-2",
  parentSessionId: "remote-sess",
  taskId: "call_2",
  depth: 2,
  path: "remote-sess/planner/executor",
};
const base = { agentId: "reviewer", depth: 1, path: "sess-001/reviewer" };

it("adds a level in front and keeps the other fields", () => {
  expect(prependSource(born, base)).toEqual({
    ...born,
    depth: 3,
    path: "sess-001/reviewer/planner/executor",
  });
});

it("gives events of the remote root the source of the child", () => {
  expect(prependSource(undefined, base)).toBe(base);
});

it("adds up levels over several forwarders", () => {
  const far = { agentId: "gate", depth: 1, path: "s/gate" };
  const once = prependSource(prependSource(born, base), far);
  expect(once.depth).toBe(4);
  expect(once.path).toBe("s/gate/reviewer/planner/executor");
});

it("shortens a source to agentId, depth and path", () => {
  const short = sourceRef(born);
  expect(short).toEqual({ agentId: "executor", depth: 2, path: born.path });
  expect(sourceRef(short)).toBe(short);
});
