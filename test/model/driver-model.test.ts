import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { isDeep } from "../../src/testing/deep.ts";
import { requires } from "../support/requires.ts";

if (!isDeep)
  console.warn(
    "not run: the model of the driver takes minutes to check; `npm run test:deep` does it",
  );
const canRun = isDeep && requires("spin") && requires("gcc");

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function runTool(folder: string, command: string, ...args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: folder,
    encoding: "utf8",
  });
  if (status !== 0)
    throw new Error(`${command} ${args.join(" ")} failed: ${error ?? stdout + stderr}`);
  return stdout;
}

/** Searches all runs of a model. `property` is the name of an ltl formula, or "assertions". */
function check(
  property: string,
  options: readonly string[],
  model = "driver.pml",
): "holds" | "fails" {
  const folder = mkdtempSync(join(tmpdir(), "rivulet-model-"));
  folders.push(folder);
  copyFileSync(new URL(model, import.meta.url), join(folder, model));
  const isSafety = property === "assertions";
  const defines = [...options, ...(isSafety ? [] : ["CHECK=9"])].map((option) => `-D${option}`);
  runTool(folder, "spin", "-a", ...defines, model);
  const build = isSafety ? ["-DSAFETY", "-DNOCLAIM"] : [];
  runTool(folder, "gcc", "-w", "-O2", "-DMEMLIM=6000", ...build, "-o", "pan", "pan.c");
  const search = isSafety ? [] : ["-a", "-N", property];
  // -E: a run may end anywhere, because S5 says where it may. -m: the longest run. -w: the size of the state table.
  const output = runTool(folder, "./pan", ...search, "-E", "-m100000", "-w25");
  const errors = /errors: (\d+)/.exec(output)?.[1];
  if (errors !== undefined && errors !== "0") return "fails";
  if (errors === undefined || /too small|out of memory|Search not completed/.test(output))
    throw new Error(`The search did not finish:\n${output}`);
  return "holds";
}

const noFailures = ["CRASHES=0", "PAUSES=0"];
const noFailuresNoTimer = [...noFailures, "TIMER=0"];
const threeProcesses = ["NP=3", "CRASHES=2", "PAUSES=0", "FOLLOWS=0"];

describe.runIf(canRun)("the model of the driver", () => {
  describe.each([0, 1])("holds when task %i is cancelled", (cancelled) => {
    it.each([
      ["without failures and timers: assertions", "assertions", noFailuresNoTimer],
      ["without failures and timers: all work ends", "live", noFailuresNoTimer],
      ["with a crash: assertions", "assertions", ["PAUSES=0"]],
      ["with a crash: all work ends", "live", ["PAUSES=0"]],
      ["with three processes and two crashes: assertions", "assertions", threeProcesses],
      ["with three processes and two crashes: all work ends", "live", threeProcesses],
      ["with a crash and a pause: assertions", "assertions", ["FOLLOWS=0"]],
      ["with a pause: all work ends", "live", ["CRASHES=0", "FOLLOWS=0"]],
    ])("%s", (_, property, options) => {
      expect(check(property, [...options, `CANCELLED=${cancelled}`])).toBe("holds");
    });
  });

  it.each([
    ["a queued task that is cancelled because its predecessor suspends", "withdrawn", noFailures],
    ["an answering door that returns a second suspension", "suspended_again", noFailures],
    ["a process that takes over while the paused owner is unaware", "taken_over", ["CRASHES=0"]],
  ])("reaches %s", (_, state, options) => {
    expect(check(`never_${state}`, options)).toBe("fails");
  });

  describe("fails", () => {
    const onePause = ["CRASHES=0"];
    it.each([
      ["cancels, if a writer does not look after its post", "POST_WITHOUT_LOOK", noFailuresNoTimer],
      [
        "tasks, if the owner does not look after its release",
        "RELEASE_WITHOUT_LOOK",
        noFailuresNoTimer,
      ],
      ["tasks, if the owner looks before its release", "LOOK_THEN_RELEASE", noFailuresNoTimer],
      [
        "tasks, if a door submits to an owner that releases",
        "SUBMIT_WHILE_RELEASING",
        noFailuresNoTimer,
      ],
      ["tasks, if a fenced submit is not enqueued", "FENCED_SUBMIT_IS_LOST", onePause],
      ["answers, if rows are taken without the fence", "TAKE_WITHOUT_FENCE", onePause],
      ["rows, if the plan keeps rows of ended tasks", "KEEP_STALE_ROWS", noFailures],
    ])("%s", (title, mutant, options) => {
      const [property = ""] = title.split(",");
      expect(check(property, [...options, mutant])).toBe("fails");
    });

    it.each([
      ["S1, if a commit does not check `begins`", "SUBMIT_WITHOUT_BEGINS", noFailuresNoTimer],
      ["S2, if rows are taken without the fence", "TAKE_WITHOUT_FENCE", onePause],
      ["S3, if rows are taken without the fence", "TAKE_WITHOUT_FENCE", onePause],
      ["S4, if a door throws before it reads the record", "THROW_BEFORE_RECORD", noFailures],
      ["S5, if a writer does not look after its post", "POST_WITHOUT_LOOK", noFailuresNoTimer],
      ["S6, if an answering door reads the record first", "RECORD_BEFORE_ROWS", noFailures],
      ["S7, if `ifQueued` is ignored", "WITHDRAW_RUNNING", noFailures],
    ])("%s", (title, mutant, options) => {
      expect(check("assertions", [...options, mutant, `CHECK=${title[1]}`])).toBe("fails");
    });
  });

  it.each(["POST_WITHOUT_LOOK", "RELEASE_WITHOUT_LOOK"])(
    "holds with %s when followers have a timer, which hides the lost wake-up",
    (mutant) => {
      expect(check("live", [...noFailures, mutant])).toBe("holds");
    },
  );
});

describe.runIf(canRun)("the model of conversations that take their processes down", () => {
  const inModel = (property: string, ...options: readonly string[]) =>
    check(property, options, "poison.pml");

  it.each([
    ["with a crash", []],
    ["with two crashes", ["CRASHES=2"]],
    ["with three processes", ["NP=3"]],
    ["with progress before each death", ["PROGRESSES=1"]],
  ])("holds %s", (_, options) => {
    for (const property of ["assertions", "ends", "cancels"])
      expect([property, inModel(property, ...options)]).toEqual([property, "holds"]);
  });

  it.each(["never_poisoned", "never_lost_together"])("reaches the opposite of %s", (state) => {
    expect(inModel(state)).toBe("fails");
  });

  it.each([
    ["if suspects run at once", "ALL_AT_ONCE"],
    ["if no number of losses is too many", "NEVER_POISONED"],
    ["if a suspect runs before its cancel is read", "RUN_BEFORE_CANCEL"],
    ["if progress does not clear the losses", "KEEP_LOSSES", "PROGRESSES=1"],
  ])("fails %s", (_, ...options) => {
    expect(inModel("assertions", ...options)).toBe("fails");
  });
});

describe.runIf(canRun)("the model of claims, losses and hand-overs", () => {
  const inModel = (property: string, ...options: readonly string[]) =>
    check(property, options, "claim.pml");

  it.each([
    ["with a crash, a pause, a drain and a lost answer", []],
    ["with two of each", ["CRASHES=2", "PAUSES=2", "DRAINS=2", "LOST_ANSWERS=2"]],
    ["with three processes", ["NP=3"]],
  ])("holds %s", (_, options) => {
    for (const property of ["assertions", "ends"])
      expect([property, inModel(property, ...options)]).toEqual([property, "holds"]);
  });

  it.each(["never_taken_over", "never_handed_over", "never_fenced"])(
    "reaches the opposite of %s",
    (state) => {
      expect(inModel(state)).toBe("fails");
    },
  );

  it.each([
    ["if a claim takes a live lease", "CLAIM_IGNORES_OWNER"],
    ["if a commit does not check the lease", "COMMIT_WITHOUT_FENCE"],
    ["if a paused process runs a step before it looks at its lease", "RUN_WITHOUT_LEASE"],
    ["if a drain releases within a step", "RELEASE_WITHIN_STEP"],
    ["if a drained process keeps its lease", "DRAIN_WITHOUT_RELEASE"],
    ["if progress does not clear the losses", "KEEP_LOSSES"],
    ["if a commit without an answer is written again", "COMMIT_AGAIN"],
  ])("fails %s", (_, ...options) => {
    expect(inModel("assertions", ...options)).toBe("fails");
  });

  it("does not end if the lease of a lost owner never ends", () => {
    expect(inModel("ends", "NO_EXPIRY")).toBe("fails");
  });
});
