import { describe, expect, it, vi } from "vitest";
import type { Store } from "../contract/store.ts";
import { withoutChecks } from "./arguments.ts";
import { memoryStore } from "./memory.ts";

const misspelled = { sesionId: "s" } as object;

describe("withoutChecks", () => {
  it("reads without the checks of the store, which keeps them", async () => {
    const store = memoryStore();
    await expect(store.posts(misspelled)).rejects.toMatchObject({ code: "invalid_settings" });
    await expect(withoutChecks(store).posts(misspelled)).resolves.toEqual([]);
  });

  it("fails when the store is closed", async () => {
    const store = memoryStore();
    const engine = withoutChecks(store);
    await store.close();
    await expect(engine.task("t")).rejects.toMatchObject({ code: "store_closed" });
    expect(() => engine.watch({ task: "t" }, () => {})).toThrow("closed");
  });

  it("calls a method that was replaced in the store, before or after", async () => {
    const store = memoryStore();
    store.task = async () => {
      throw new Error("The disk is gone.");
    };
    const engine = withoutChecks(store);
    await expect(engine.task("t")).rejects.toThrow("The disk is gone.");
    const last = vi.spyOn(store, "last").mockResolvedValue(7);
    expect(await engine.last("t")).toBe(7);
    expect(last).toHaveBeenCalledOnce();
  });

  it("returns any other store as it is", () => {
    const store: Store = { ...memoryStore() };
    expect(withoutChecks(store)).toBe(store);
  });
});
