import type { Plan } from "../../harness/subagents/trees/plan.ts";

/** A task of a remote child's own subagent that waits for its session while an earlier task of it asks. */
export const queuedBelow: Plan = {
  ...{ seed: 129296253, parallel: true, answers: "at once", together: false, settles: true },
  roots: [
    {
      ...{ key: "r", kind: "lead", end: "say" },
      turns: [
        {
          pause: 0,
          calls: [
            {
              ...{ type: "spawn", key: "r.0.0", wait: "sync" },
              task: {
                ...{ key: "r.0.0", kind: "alpha", end: "say" },
                turns: [
                  {
                    pause: 0,
                    calls: [
                      {
                        ...{ type: "spawn", key: "r.0.0.0.0", wait: "promoted" },
                        task: {
                          ...{ key: "r.0.0.0.0", kind: "beta", end: "say" },
                          turns: [
                            {
                              pause: 10,
                              calls: [
                                { type: "ask", key: "r.0.0.0.0.0.0", n: 3 },
                                { type: "hold", key: "r.0.0.0.0.0.1" },
                              ],
                            },
                          ],
                        },
                      },
                    ],
                  },
                  {
                    pause: 0,
                    calls: [
                      {
                        ...{ type: "send", key: "r.0.0.1.0", wait: "sync", to: "r.0.0.0.0" },
                        task: {
                          ...{ key: "r.0.0.1.0", kind: "beta", end: "say" },
                          turns: [
                            { pause: 10, calls: [{ type: "work", key: "r.0.0.1.0.0.0", n: 1 }] },
                          ],
                        },
                      },
                    ],
                  },
                ],
              },
            },
          ],
        },
      ],
    },
  ],
};
