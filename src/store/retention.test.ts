import { describe, expect, it } from "vitest";
import { createTrimmer, type EndedLog, type LogRetention } from "./retention.ts";

const noLimit = { maxAgeMs: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };

/** Ended logs of 10 bytes each, the first one the oldest, and a trimmer for them. */
function logsWith(
  ages: readonly number[],
  limits: Partial<LogRetention>,
  { read = [], broken = [] }: { read?: readonly string[]; broken?: readonly string[] } = {},
) {
  const now = 1_000_000;
  const readers = new Set(read);
  let logs: EndedLog[] = ages.map((age, index) => ({ log: `log_${index}`, endedAt: now - age }));
  const trimmed: string[] = [];
  const trimmer = createTrimmer(
    {
      inOrder: () => logs,
      bytes: () => logs.length * 10,
      now: () => now,
      isRead: (log) => readers.has(log),
      async trim(log) {
        if (broken.includes(log)) throw new Error("It is damaged.");
        logs = logs.filter((entry) => entry.log !== log);
        trimmed.push(log);
      },
    },
    { ...noLimit, ...limits },
    0,
  );
  return { trimmer, trimmed, readers };
}

/** Wakes the trimmer, lets its timer run, and waits until it rests. */
async function settle({ trimmer }: Pick<ReturnType<typeof logsWith>, "trimmer">): Promise<void> {
  trimmer.wake();
  await new Promise((resolve) => setTimeout(resolve, 5));
  await trimmer.stop();
}

describe("a trimmer", () => {
  it.each([
    ["keeps everything without limits", [50, 40, 30], {}, []],
    ["trims the logs that have reached the age", [50, 40, 30], { maxAgeMs: 40 }, [0, 1]],
    ["trims everything at the age 0", [50, 40, 0], { maxAgeMs: 0 }, [0, 1, 2]],
    ["trims the first logs beyond the size", [50, 40, 30, 20], { maxBytes: 25 }, [0, 1]],
    ["keeps the last log whatever its size", [50, 40, 30], { maxBytes: 0 }, [0, 1]],
    ["trims the last log by age", [50, 40], { maxBytes: 0, maxAgeMs: 40 }, [0, 1]],
  ] as const)("%s", async (_, ages, limits, expected) => {
    const logs = logsWith(ages, limits);
    await settle(logs);
    expect(logs.trimmed).toEqual(expected.map((index) => `log_${index}`));
  });

  it("leaves a log that is read and trims the ones after it", async () => {
    const logs = logsWith([50, 40, 30, 20], { maxBytes: 25 }, { read: ["log_0"] });
    await settle(logs);
    expect(logs.trimmed).toEqual(["log_1", "log_2"]);
  });

  it("trims a log when its reader has left", async () => {
    const logs = logsWith([50], { maxAgeMs: 10 }, { read: ["log_0"] });
    logs.trimmer.wake();
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(logs.trimmed).toEqual([]);
    logs.readers.clear();
    await settle(logs);
    expect(logs.trimmed).toEqual(["log_0"]);
  });

  it("is not held up by a log that cannot be trimmed", async () => {
    const logs = logsWith([50, 40, 30], { maxAgeMs: 10 }, { broken: ["log_0"] });
    await settle(logs);
    expect(logs.trimmed).toEqual(["log_1", "log_2"]);
  });
});
