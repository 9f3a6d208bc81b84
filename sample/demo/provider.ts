import type { CreateModel } from "../../src/agent/index.ts";

/** The provider of `demo:analyst`; its first model loads the program. */
export const demoProvider: CreateModel = async (modelId) =>
  (await import("./demo.ts")).demoModel(modelId);
