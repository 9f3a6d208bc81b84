import { expect, it } from "vitest";
import { emptyRequest, fakeModel } from "../../../test/support/fake-model.ts";
import { callOptions } from "./call-options.ts";
import type { TurnRequest } from "./turn.ts";

const search = { type: "provider", id: "openai.web_search", name: "web_search", args: {} };
const weather = { name: "weather", description: "Weather.", inputSchema: { type: "object" } };

function optionsOf(request: Partial<TurnRequest>): Record<string, unknown> {
  return callOptions(fakeModel("v4", []), emptyRequest(request));
}

it("tools of the provider stand beside the agent's own", () => {
  const both = optionsOf({ tools: [weather], options: { tools: [search] } });
  expect(both.tools).toEqual([{ type: "function", ...weather }, search]);
  expect(both.toolChoice).toEqual({ type: "auto" });
  expect(optionsOf({ options: { tools: [search] } }).tools).toEqual([search]);
});

it("who chooses a tool is heard", () => {
  const toolChoice = { type: "tool", toolName: "weather" };
  expect(optionsOf({ tools: [weather], options: { toolChoice } }).toolChoice).toEqual(toolChoice);
  const words = optionsOf({
    tools: [weather],
    toolChoice: "auto",
    options: { toolChoice: "required" },
  });
  expect(words.toolChoice).toEqual({ type: "required" });
});

it("nothing is chosen where there is nothing to choose", () => {
  const none = optionsOf({ options: { toolChoice: "required" } });
  expect(none).not.toHaveProperty("toolChoice");
  expect(none).not.toHaveProperty("tools");
});

it.each([{ web_search: search }, [{ id: "openai.web_search" }], "web_search"])(
  "tools that are none are refused: %j",
  (tools) => {
    const refused = expect.objectContaining({ code: "invalid_settings", hint: expect.any(String) });
    expect(() => optionsOf({ options: { tools } })).toThrow(refused);
  },
);
