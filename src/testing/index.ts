export { ManualClock, type Sleepers } from "./clock.ts";
export type { ContractCase } from "./contract.ts";
export { type FetchFaults, faultyFetch, type ModelFaults, withFaults } from "./faults.ts";
export type { CreateFilesystem, FilesystemUnderTest } from "./filesystem-contract/fixture.ts";
export { filesystemContract } from "./filesystem-contract.ts";
export { type RecordReplayOptions, recordReplay } from "./replay.ts";
export type {
  ScriptedCall,
  ScriptedChunk,
  ScriptedDelay,
  ScriptedError,
  ScriptedFile,
  ScriptedFinish,
  ScriptedHang,
  ScriptedPart,
  ScriptedRequest,
  ScriptedSource,
  ScriptedText,
  ScriptedThinking,
  ScriptedTurn,
  ScriptedUsage,
} from "./script.ts";
export {
  type Script,
  type ScriptedModel,
  type ScriptedModelOptions,
  scriptedModel,
  type TurnFunction,
} from "./scripted-model.ts";
export type { CreateStore, StoreUnderTest } from "./store-contract/fixture.ts";
export { storeContract } from "./store-contract.ts";
