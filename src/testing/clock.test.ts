import { getEventListeners } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { ReActAgent } from "../agent/react-agent.ts";
import { tool } from "../agent/tool/tool.ts";
import { openStore } from "../store/open.ts";
import { ManualClock } from "./clock.ts";
import { scriptedModel } from "./scripted-model.ts";

describe("ManualClock", () => {
  it("keeps its time until advance", async () => {
    const clock = new ManualClock(1_000);
    let awake = false;
    const sleeping = clock.sleep(10).then(() => {
      awake = true;
    });
    expect(clock.pending).toBe(1);
    await clock.advance(9);
    expect([clock.now(), awake]).toEqual([1_009, false]);
    await clock.advance(1);
    expect([clock.now(), awake, clock.pending]).toEqual([1_010, true, 0]);
    await sleeping;
  });

  it("wakes sleepers in order of due time and lets each run before the next", async () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    const sleeper = async (name: string, ms: number) => {
      await clock.sleep(ms);
      seen.push(`${name} at ${clock.now()}`);
      await Promise.resolve();
      await Promise.resolve();
      seen.push(`${name} done`);
    };
    const all = [sleeper("c", 20), sleeper("a", 10), sleeper("b", 10)];
    await clock.advance(50);
    expect(seen).toEqual(["a at 10", "a done", "b at 10", "b done", "c at 20", "c done"]);
    expect(clock.now()).toBe(50);
    await Promise.all(all);
  });

  it("wakes a sleep that starts during the same advance", async () => {
    const clock = new ManualClock();
    const times: number[] = [];
    const repeating = (async () => {
      for (let i = 0; i < 3; i++) {
        await clock.sleep(10);
        times.push(clock.now());
      }
    })();
    await clock.advance(30);
    expect(times).toEqual([10, 20, 30]);
    await repeating;
  });

  it("resolves a sleep of zero immediately", async () => {
    await new ManualClock().sleep(0);
  });

  it("resolves sleeping() when enough sleeps of a length are pending", async () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    const note = (name: string, waiting: Promise<void>) => waiting.then(() => seen.push(name));
    note("any", clock.sleeping());
    note("two", clock.sleeping({ count: 2 }));
    note("two of 20", clock.sleeping({ ms: 20, count: 2 }));
    const fallAsleep = async (ms: number) => {
      clock.sleep(ms);
      await new Promise(setImmediate);
      return seen.splice(0);
    };
    expect(await fallAsleep(0)).toEqual([]);
    expect(await fallAsleep(20)).toEqual(["any"]);
    expect(await fallAsleep(10)).toEqual(["two"]);
    await clock.advance(10);
    expect(await fallAsleep(10)).toEqual([]); // due with the other one, but not as long
    expect(await fallAsleep(20)).toEqual(["two of 20"]);
    await clock.sleeping({ ms: 20, count: 2 }); // they wait already
  });

  it("rejects with the signal's reason and removes sleeper and listener", async () => {
    const clock = new ManualClock();
    const abort = new AbortController();
    const other = clock.sleep(10);
    const sleeping = clock.sleep(10, abort.signal);
    abort.abort("enough");
    await expect(sleeping).rejects.toBe("enough");
    expect(clock.pending).toBe(1);
    await expect(clock.sleep(10, abort.signal)).rejects.toBe("enough");
    const kept = new AbortController();
    const finished = clock.sleep(10, kept.signal);
    await clock.advance(10);
    await Promise.all([other, finished]);
    expect(getEventListeners(kept.signal, "abort")).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});

describe("the time limit of a tool", () => {
  async function sqlite() {
    const directory = await mkdtemp(join(tmpdir(), "rivulet-clock-"));
    const store = openStore(`sqlite:${join(directory, "store.db")}`);
    onTestFinished(async () => {
      await store.close?.();
      await rm(directory, { recursive: true });
    });
    return { store };
  }
  const nextMacrotask = () => new Promise<void>((resolve) => setImmediate(resolve));
  const slowHook = { name: "slow", preReasoning: nextMacrotask, preActing: nextMacrotask };

  it.each([
    ["a store in memory", async () => ({})],
    ["a store on disk", sqlite],
    ["hooks that take a while", async () => ({ hooks: [slowHook] })],
  ])("passes when it is waited for, with %s", async (_, around) => {
    const clock = new ManualClock();
    const slow = tool({
      name: "slow",
      description: "Never ends.",
      execution: { timeoutMs: 90_000 },
      execute: () => new Promise(() => {}),
    });
    const model = scriptedModel([{ call: "slow" }, "It took too long."]);
    const options = { name: "assistant", model, tools: [slow], clock };
    const reply = new ReActAgent({ ...options, ...(await around()) }).call("Go.");
    await clock.sleeping({ ms: 90_000 });
    await clock.advance(90_000);
    expect((await reply).text).toBe("It took too long.");
    expect(clock.now()).toBe(90_000);
  });
});
