import { describe, expect, expectTypeOf, it, vi } from "vitest";
import { fakeModel } from "../../../test/support/fake-model.ts";
import type { RivuletError } from "../../base/error.ts";
import {
  checkModel,
  flattenModels,
  type Model,
  resolveModel,
  supportsResponseFormat,
} from "./resolve.ts";

describe("checkModel", () => {
  it("accepts objects of every version, ids and lists", () => {
    for (const version of ["v2", "v3", "v4"] as const) {
      expect(() => checkModel(fakeModel(version, []))).not.toThrow();
    }
    expect(() => checkModel("openai:gpt-5-mini")).not.toThrow();
    expect(() => checkModel("openai-compatible:llama3:8b")).not.toThrow();
    expect(() => checkModel(["openai:a", [fakeModel("v4", []), "anthropic:b"]])).not.toThrow();
  });

  it("takes an id of type string, such as a variable of the environment", () => {
    expectTypeOf<string>().toExtend<Model>();
    expectTypeOf<readonly string[]>().toExtend<Model>();
    const model: Model = process.env.RIVULET_UNSET ?? "openai:gpt-5-mini";
    expect(() => checkModel(model)).not.toThrow();
  });

  it("rejects everything else with a hint", () => {
    const { doStream, ...silent } = fakeModel("v4", []);
    const bad = [
      "",
      "gpt-5",
      ":gpt-5",
      "openai:",
      [],
      ["openai:a", []],
      null,
      undefined,
      42,
      {},
      silent,
      { ...fakeModel("v4", []), specificationVersion: "v1" },
    ];
    for (const model of bad) {
      expect(() => checkModel(model), JSON.stringify(model)).toThrow(
        expect.objectContaining({
          code: "invalid_model",
          hint: expect.stringContaining("openai:"),
        }),
      );
    }
  });

  it("rejects an unknown provider, also one named like a property of Object.prototype", () => {
    for (const id of ["opnai:gpt-5", "constructor:x", "__proto__:x"]) {
      expect(() => checkModel(id)).toThrow(
        expect.objectContaining({
          code: "unknown_provider",
          hint: expect.stringContaining("anthropic, azure"),
        }),
      );
    }
  });
});

it("suggests a similar provider, or the package of an unknown one", () => {
  const hintOf = (id: string) => {
    try {
      checkModel(id);
    } catch (error) {
      return (error as RivuletError).hint;
    }
  };
  expect(hintOf("opnai:gpt-5")).toContain("Did you mean openai");
  expect(hintOf("perplexity:sonar")).toContain("npm i @ai-sdk/perplexity");
  expect(hintOf("My Own:model")).not.toContain("npm i");
  expect(hintOf("ollama:llama3.2")).toContain(
    "OPENAI_COMPATIBLE_BASE_URL=http://localhost:11434/v1",
  );
  expect(hintOf("ollama:llama3.2")).not.toContain("@ai-sdk/ollama");
});

describe("resolveModel", () => {
  it("returns a model object unchanged", async () => {
    const model = fakeModel("v3", []);
    expect(await resolveModel(model)).toBe(model);
  });

  it("creates a model with the provider's package and everything after the first colon", async () => {
    expect(await resolveModel("openai:ft:gpt-5:mine")).toMatchObject({
      provider: "openai.responses",
      modelId: "ft:gpt-5:mine",
    });
    expect(await resolveModel("anthropic:claude")).toMatchObject({ modelId: "claude" });
  });

  it("names the missing package and how to install it", async () => {
    await expect(resolveModel("cohere:command")).rejects.toMatchObject({
      code: "provider_not_installed",
      hint: "Run npm i @ai-sdk/cohere.",
    });
  });

  it("reads the base URL of an OpenAI-compatible model from the environment", async () => {
    vi.stubEnv("OPENAI_COMPATIBLE_BASE_URL", "");
    await expect(resolveModel("openai-compatible:llama3:8b")).rejects.toMatchObject({
      code: "invalid_model",
      hint: expect.stringContaining("OPENAI_COMPATIBLE_BASE_URL"),
    });
    vi.stubEnv("OPENAI_COMPATIBLE_BASE_URL", "http://127.0.0.1:9/v1");
    expect(await resolveModel("openai-compatible:llama3:8b")).toMatchObject({
      provider: "openai-compatible.chat",
      modelId: "llama3:8b",
    });
    vi.unstubAllEnvs();
  });
});

it("flattenModels flattens nested lists", () => {
  const model = fakeModel("v4", []);
  expect(flattenModels(model)).toEqual([model]);
  expect(flattenModels(["openai:a", [model, ["openai:b"]]])).toEqual([
    "openai:a",
    model,
    "openai:b",
  ]);
});

describe("supportsResponseFormat", () => {
  const named = (provider: string) => Object.assign(fakeModel("v4", []), { provider }) as Model;

  it("is true for known providers", () => {
    for (const model of ["openai:gpt-5", named("openai.responses"), "google:gemini"] as Model[]) {
      expect(supportsResponseFormat(model)).toBe(true);
    }
    expect(supportsResponseFormat("openai:gpt-5", { tools: true })).toBe(true);
    const told = Object.assign(fakeModel("v4", []), { supportsStructuredOutputs: true });
    expect(supportsResponseFormat(told)).toBe(true);
  });

  it("is false for other providers, and for Google with tools", () => {
    for (const provider of ["anthropic.messages", "openai-compatible.chat", "fake"]) {
      expect(supportsResponseFormat(named(provider))).toBe(false);
    }
    expect(supportsResponseFormat("google:gemini", { tools: true })).toBe(false);
    expect(supportsResponseFormat(["openai:gpt-5", "anthropic:claude"])).toBe(false);
  });
});
