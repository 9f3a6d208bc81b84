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

it("a forwarder adds a level in front and changes nothing that the event was born with", () => {
  expect(prependSource(born, base)).toEqual({
    ...born,
    depth: 3,
    path: "sess-001/reviewer/planner/executor",
  });
});

it("the remote's root becomes the child it is here", () => {
  expect(prependSource(undefined, base)).toBe(base);
});

it("levels add up, whoever forwards", () => {
  const far = { agentId: "gate", depth: 1, path: "s/gate" };
  const once = prependSource(prependSource(born, base), far);
  expect(once.depth).toBe(4);
  expect(once.path).toBe("s/gate/reviewer/planner/executor");
});

it("the short form keeps what places an event", () => {
  const short = sourceRef(born);
  expect(short).toEqual({ agentId: "executor", depth: 2, path: born.path });
  expect(sourceRef(short)).toBe(short);
});
