export {
  type AgentView,
  type AskedView,
  type CallView,
  type ReplayOptions,
  type RunView,
  runOf,
} from "../harness/index.ts";
export { ManualClock } from "./clock.ts";

export {
  defineEval,
  type Eval,
  type EvalCase,
  type EvalOptions,
  isEval,
} from "./evals/eval.ts";
export {
  type EvalCell,
  type EvalReport,
  type EvalSummary,
  isError,
  problemsOf,
} from "./evals/report.ts";
export {
  type EvalProgress,
  evalSuite,
  type RunEvalOptions,
  runEval,
} from "./evals/run.ts";
export {
  agentWasCalled,
  citationsResolve,
  contains,
  costBelow,
  exact,
  judge,
  matchesSchema,
  type Scorer,
  stepsBelow,
} from "./evals/scorers.ts";
export { type FetchFaults, faultyFetch, type ModelFaults, withFaults } from "./faults.ts";
export type { CreateFilesystem } from "./filesystem-contract/fixture.ts";
export { filesystemContract } from "./filesystem-contract.ts";
export { type RecordReplayOptions, recordReplay } from "./replay.ts";
export { recordRun, replayRun } from "./replay-run.ts";
export type { ScriptedPart, ScriptedRequest, ScriptedTurn } from "./script.ts";
export {
  type Script,
  type ScriptedModel,
  type ScriptedModelOptions,
  scriptedModel,
  type TurnFunction,
} from "./scripted-model.ts";
export type { CreateStore } from "./store-contract/fixture.ts";
export { storeContract } from "./store-contract.ts";
