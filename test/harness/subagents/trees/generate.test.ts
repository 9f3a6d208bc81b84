import { expect, it } from "vitest";
import { features, generateTree } from "./generate.ts";
import { callsOf, childCalls, type TaskPlan, tasksOf } from "./plan.ts";

const plans = Array.from({ length: 200 }, (_, seed) =>
  generateTree(seed, { turns: 4, calls: 4, depth: 3, tasks: 14 }, features),
);
const tasks = plans.flatMap((plan) => [...tasksOf(plan).values()]);

it("creates the same tree for the same seed", () => {
  const size = { turns: 4, calls: 4, depth: 3, tasks: 14 };
  expect(generateTree(7, size, features)).toEqual(plans[7]);
});

it("creates trees with every feature", () => {
  const calls = tasks.flatMap(callsOf);
  expect(new Set(calls.map(({ type }) => type))).toEqual(
    new Set([
      ...["work", "ask", "hold", "stuck", "list", "spawn", "send", "output", "wait", "cancel"],
    ]),
  );
  const children = tasks.flatMap(childCalls);
  expect(new Set(children.map(({ type, wait }) => `${type} ${wait}`)).size).toBe(6);
  expect(new Set(tasks.map(({ kind }) => kind)).size).toBe(5);
  expect(plans.some(({ cancelAt }) => cancelAt !== undefined)).toBe(true);
  expect(plans.some(({ roots }) => roots.length > 1)).toBe(true);
});

it("creates deep and wide trees, with many children of one agent", () => {
  const depth = ({ key }: TaskPlan) => (key.split(".").length - 1) / 2;
  expect(Math.max(...tasks.map(depth))).toBe(3);
  const crowds = tasks.flatMap(({ turns }) =>
    turns.map(({ calls }) =>
      calls.filter((call) => call.type === "spawn" && call.task.kind === "alpha"),
    ),
  );
  expect(Math.max(...crowds.map(({ length }) => length))).toBe(8);
});
