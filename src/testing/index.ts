export { ManualClock, type Sleepers } from "./clock.ts";
export { type FetchFaults, faultyFetch, type ModelFaults, withFaults } from "./faults.ts";
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
