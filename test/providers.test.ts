import { afterAll, describe, expect, it, vi } from "vitest";
import { runTurn } from "../src/agent/model/model.ts";
import type { Turn, TurnSink } from "../src/agent/model/turn.ts";
import { systemClock } from "../src/base/clock.ts";
import { createIds } from "../src/base/id.ts";
import type { Block, Message } from "../src/contract/message.ts";
import { isDeep } from "../src/testing/deep.ts";
import { emptyRequest } from "./support/fake-model.ts";
import { cutsOf } from "./support/provider-cuts.ts";
import type { ProviderKind, ProviderTurn } from "./support/provider-frames.ts";
import { type ProviderServer, startProvider } from "./support/provider-server.ts";

const turn: ProviderTurn = {
  thinking: ["Let me ", "think."],
  text: ["Zwölf ", "Städte 🏙️, ", "eine Frage."],
  calls: [
    { id: "call_a", name: "weather", input: ['{"city":', '"Köln"', "}"] },
    { id: "call_b", name: "clock", input: ["{}"] },
  ],
};
const content = [
  { type: "thinking", text: "Let me think." },
  { type: "text", text: "Zwölf Städte 🏙️, eine Frage." },
  { type: "tool_use", name: "weather", input: { city: "Köln" }, providerCallId: "call_a" },
  { type: "tool_use", name: "clock", input: {}, providerCallId: "call_b" },
];

/** A sink that keeps what is shown, so that it can be held against the turn. */
function screen() {
  let parts = new Map<unknown, { kind: string; text: string; closed: boolean }>();
  let discards = 0;
  const sink: TurnSink = {
    open({ kind }) {
      const key = Symbol(kind);
      parts.set(key, { kind, text: "", closed: false });
      return key;
    },
    delta(key, text) {
      const part = parts.get(key);
      if (part === undefined || part.closed) throw new Error("a delta of nothing");
      part.text += text;
    },
    close(key) {
      const part = parts.get(key);
      if (part === undefined || part.closed) throw new Error("closed twice");
      part.closed = true;
    },
    block() {},
    source() {},
    discard() {
      discards += 1;
      parts = new Map();
    },
  };
  return { sink, parts: () => [...parts.values()], discards: () => discards };
}

const dependencies = {
  ids: createIds(),
  clock: systemClock,
  execution: { initialBackoffMs: 0, maxAttempts: 2, stallMs: 20_000 },
  random: Math.random,
};

function withoutIds(blocks: readonly Block[]): unknown[] {
  return blocks.map((block) => {
    const { id, signature, ...rest } = block as Block & { id?: string; signature?: string };
    return rest;
  });
}

describe.each<ProviderKind>(["openai", "anthropic", "openai-compatible"])("%s", (kind) => {
  let server: ProviderServer | undefined;
  const start = async () => {
    server ??= await startProvider({ kind, script: [turn] });
    return server;
  };
  afterAll(() => server?.close());

  async function run(messages: readonly Message[] = []): Promise<{ turn: Turn; discards: number }> {
    const { model } = await start();
    const { sink, parts, discards } = screen();
    const request = emptyRequest({ systemPrompt: "Be X.", messages, tools });
    const result = await runTurn([model()], request, sink, dependencies);
    expect(parts().every(({ closed }) => closed)).toBe(true);
    expect(parts().map(({ kind: shown, text }) => [shown, text])).toEqual(
      result.content.map((block) =>
        block.type === "tool_use"
          ? ["call", JSON.stringify(block.input)]
          : [block.type, (block as { text: string }).text],
      ),
    );
    return { turn: result, discards: discards() };
  }
  const tools = ["weather", "clock"].map((name) => ({
    name,
    description: name,
    inputSchema: { type: "object", properties: {} },
  }));
  const asked: Message = { id: "1", role: "user", content: [{ type: "text", text: "Hi" }] };

  it("streams a turn, and takes it back into the next request", async () => {
    const { restart } = await start();
    restart({});
    const { turn: first } = await run([asked]);
    expect(withoutIds(first.content)).toEqual(content);
    expect(first.finishReason).toBe("tool-calls");
    expect(first.usage).toMatchObject({ input_tokens: 11, output_tokens: 7, total_tokens: 18 });

    const results = first.content
      .flatMap((block) => (block.type === "tool_use" ? [block] : []))
      .reverse()
      .map(
        ({ id, name }): Message => ({
          id: `result of ${name}`,
          role: "tool",
          content: [
            {
              type: "tool_result",
              id,
              name,
              output: [{ type: "text", text: `${name} says` }],
              state: "success",
            },
          ],
        }),
      );
    const said: Message = { id: "2", role: "assistant", content: first.content };
    await run([asked, said, ...results]);
    const body = JSON.stringify(server?.requests.at(-1)?.body);
    const places = ["Be X.", '"Hi"', "call_a", "call_b", "weather says", "clock says"].map(
      (piece) => body.indexOf(piece),
    );
    expect(places, body).toEqual([...places].sort((a, b) => a - b));
    expect(places).not.toContain(-1);
    if (kind === "anthropic") expect(body).toContain('"signature":"signed"');
    if (kind === "openai") expect(body).toContain('"rs_1"');
  });

  it("survives a cut anywhere in the stream, and never takes half a call for one", async () => {
    const { restart } = await start();
    const cuts = cutsOf(kind, turn, isDeep ? 1 : 19);
    let retried = 0;
    for (const { where, ...cut } of cuts) {
      restart(cut);
      const { turn: result, discards } = await run().catch((error: unknown) => {
        throw new Error(where, { cause: error });
      });
      expect(withoutIds(result.content), where).toEqual(content);
      expect(discards, where).toBeLessThan(server?.requests.length ?? 0);
      retried += (server?.requests.length ?? 0) - 1;
    }
    expect(retried).toBeGreaterThan(cuts.length / 2);
  });

  it("says what is wrong in our words", async () => {
    const { restart, model } = await start();
    const refusals = [
      [401, "unauthorized", 1],
      [404, "model_not_found", 1],
      [429, "rate_limited", 2],
      [500, "provider_error", 2],
      [400, "context_overflow", 1],
    ] as const;
    for (const [status, code, attempts] of refusals) {
      const message =
        code === "context_overflow" ? "prompt is too long: 9 tokens > 8 maximum" : "Because.";
      const body = { type: "error", error: { type: "some_error", message } };
      restart({ script: [{ status, body }] });
      const failed = runTurn([model()], emptyRequest(), screen().sink, dependencies);
      await expect(failed, code).rejects.toMatchObject({ code });
      expect(server?.requests).toHaveLength(attempts);
    }
  });

  it("lets go of a server that never answers", async () => {
    const { restart, model } = await start();
    restart({ script: ["hang"] });
    const controller = new AbortController();
    const request = emptyRequest({ signal: controller.signal });
    const hanging = runTurn([model()], request, screen().sink, dependencies);
    while (server?.requests.length === 0) await systemClock.sleep(5);
    controller.abort("enough");
    await expect(hanging).rejects.toMatchObject({ name: "TurnInterrupted", cause: "enough" });
  });
});

it.each([
  ["openai:gpt-5-mini", "OPENAI_API_KEY"],
  ["anthropic:claude-sonnet", "ANTHROPIC_API_KEY"],
] as const)("%s says that it has no key, and where it looks for one", async (model, variable) => {
  vi.stubEnv(variable, undefined);
  const failed = runTurn([model], emptyRequest(), screen().sink, dependencies);
  await expect(failed).rejects.toMatchObject({
    code: "missing_api_key",
    retryable: false,
    message: expect.stringContaining(variable),
  });
  vi.unstubAllEnvs();
});
