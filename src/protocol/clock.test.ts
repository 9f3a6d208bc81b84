import { expect, it } from "vitest";
import { systemClock } from "./clock.ts";

it("rejects a sleep when its signal aborts and removes the listener", async () => {
  const controller = new AbortController();
  const sleeping = systemClock.sleep(60_000, controller.signal);
  controller.abort(new Error("enough"));
  await expect(sleeping).rejects.toThrow("enough");
  await expect(systemClock.sleep(0, controller.signal)).rejects.toThrow("enough");
  await expect(systemClock.sleep(0)).resolves.toBeUndefined();
});
