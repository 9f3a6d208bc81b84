import { describe, expect, it } from "vitest";
import { seededRandom } from "./random.ts";

describe("seededRandom", () => {
  it("returns the same sequence only for the same seed", () => {
    const sequence = (seed: number) => {
      const random = seededRandom(seed);
      return Array.from({ length: 20 }, () => random.next());
    };
    expect(sequence(7)).toEqual(sequence(7));
    expect(sequence(7)).not.toEqual(sequence(8));
  });

  it("stays within bounds, reaches both and is uniform", () => {
    const random = seededRandom(1);
    const counts = new Map<number, number>();
    for (let left = 60_000; left > 0; left--) {
      const value = random.int(3, 8);
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    expect([...counts.keys()].sort()).toEqual([3, 4, 5, 6, 7, 8]);
    for (const count of counts.values()) expect(Math.abs(count - 10_000)).toBeLessThan(500);
  });

  it("uses the sequence for pick and chance", () => {
    const random = seededRandom(2);
    expect(random.pick(["only"])).toBe("only");
    expect(random.chance(0)).toBe(false);
    expect(random.chance(1)).toBe(true);
  });
});
