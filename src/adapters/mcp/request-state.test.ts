import { expect, it } from "vitest";
import { memoryStore } from "../../store/index.ts";
import { openState, sealState, stateKeyOf } from "./request-state.ts";

const key = new Uint8Array(32).fill(7);
const state = { tool: "lead", taskId: "task_1", asked: { remove: "apr_1", ask: "apr_2" } };
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ ";

it("opens what it has sealed", () => {
  expect(openState(key, "ann", sealState(key, "ann", state))).toEqual(state);
  expect(openState(key, undefined, sealState(key, undefined, state))).toEqual(state);
});

// The lengths of the ids decide how many bits of the last character of each part are unused.
it.each(["task_1", "task_12", "task_123"])(
  "refuses a state with any other character at any position, for %s",
  (taskId) => {
    const sealed = sealState(key, "ann", { ...state, taskId });
    let count = 0;
    for (let at = 0; at < sealed.length; at++)
      for (const other of alphabet) {
        if (other === sealed[at]) continue;
        const changed = `${sealed.slice(0, at)}${other}${sealed.slice(at + 1)}`;
        count += 1;
        if (!isRefused(changed)) throw new Error(`accepted ${other} at ${at}`);
      }
    expect(count).toBe(sealed.length * (alphabet.length - 1));
  },
);

function isRefused(text: string): boolean {
  try {
    openState(key, "ann", text);
    return false;
  } catch (error) {
    expect(error).toMatchObject({ code: "invalid_request_state" });
    return true;
  }
}

it("refuses a state with a character more or less, and texts that are none", () => {
  const sealed = sealState(key, "ann", state);
  for (let at = 0; at <= sealed.length; at++) {
    expect(isRefused(sealed.slice(0, at) + sealed.slice(at + 1)) || at === sealed.length).toBe(
      true,
    );
    for (const more of ["A", ".", "=", "\n"])
      expect(isRefused(sealed.slice(0, at) + more + sealed.slice(at))).toBe(true);
  }
  for (const text of ["", ".", "..", "e30.e30", "\ud800"]) expect(isRefused(text)).toBe(true);
});

it("refuses the state of another user, of no user, and of another key", () => {
  const sealed = sealState(key, "ann", state);
  expect(() => openState(key, "bob", sealed)).toThrow(/requestState/);
  expect(() => openState(key, undefined, sealed)).toThrow(/requestState/);
  expect(() => openState(new Uint8Array(32).fill(8), "ann", sealed)).toThrow(/requestState/);
});

it("keeps one key in the store, also when two processes ask first", async () => {
  const store = memoryStore();
  const other = { ...store, files: store.files };
  const [one, two] = await Promise.all([stateKeyOf(store), stateKeyOf(other as typeof store)]);
  expect(one).toEqual(two);
  expect(one).toHaveLength(32);
  expect(await stateKeyOf({ ...store, files: store.files } as typeof store)).toEqual(one);
});
