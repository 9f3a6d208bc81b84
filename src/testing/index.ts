export { ManualClock } from "./clock.ts";

export { type FetchFaults, faultyFetch, type ModelFaults, withFaults } from "./faults.ts";
export type { CreateFilesystem } from "./filesystem-contract/fixture.ts";
export { filesystemContract } from "./filesystem-contract.ts";
export { type RecordReplayOptions, recordReplay } from "./replay.ts";
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
