import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { memoryStore, ReActAgent, type Store, tool } from "../../src/index.ts";
import { isDeep } from "../../src/testing/deep.ts";
import { type Cut, cutsOf } from "../support/provider-cuts.ts";
import type { ProviderKind, ProviderTurn } from "../support/provider-frames.ts";
import type { ProviderRequest, ProviderServer } from "../support/provider-server.ts";
import { startProvider } from "../support/provider-server.ts";
import { expectLawful } from "./support/laws.ts";

const acting: ProviderTurn = {
  thinking: ["Let me ", "think."],
  text: ["Zwölf ", "Städte 🏙️, ", "eine Frage."],
  calls: [
    { id: "call_a", name: "weather", input: ['{"city":', '"Köln"', "}"] },
    { id: "call_b", name: "clock", input: ["{}"] },
  ],
};
const answering: ProviderTurn = { text: ["Sonnig, ", "und spät."] };
/** What a provider says depends on whether it has the results. */
const script = ({ body }: ProviderRequest) =>
  JSON.stringify(body).includes("It is late.") ? answering : acting;

/** An agent, its tools and what they were called with. */
function workplace(server: ProviderServer, maxAttempts: number) {
  const executed: string[] = [];
  const store = memoryStore();
  const agent = new ReActAgent({
    name: "lead",
    model: server.model(),
    modelExecution: { maxAttempts, initialBackoffMs: 0, stallMs: 20_000 },
    store,
    tools: [
      tool({
        name: "weather",
        description: "The weather.",
        input: z.object({ city: z.string() }),
        execute({ city }) {
          executed.push(`weather ${city}`);
          return "Sunny.";
        },
      }),
      tool({
        name: "clock",
        description: "The time.",
        execute() {
          executed.push("clock");
          return "It is late.";
        },
      }),
    ],
  });
  return { agent, store, executed: () => executed.toSorted() };
}

async function expectSound(store: Store, where: string): Promise<void> {
  const roots = await store.tasks({ sessionId: "s" });
  for (const { rootTaskId } of roots) await expectLawful(store, rootTaskId, where);
}

/** An adapter has one of so many cuts. */
const oneOf: Readonly<Record<ProviderKind, number>> = isDeep
  ? { openai: 1, anthropic: 1, "openai-compatible": 1 }
  : { openai: 9, anthropic: 3, "openai-compatible": 9 };

describe.each<ProviderKind>(["openai", "anthropic", "openai-compatible"])(
  "an agent whose %s stream is cut anywhere",
  (kind) => {
    let server: ProviderServer | undefined;
    afterAll(() => server?.close());

    async function eachCut(play: (cut: Cut, server: ProviderServer) => Promise<void>) {
      server ??= await startProvider({ kind, script });
      const cuts = cutsOf(kind, acting, isDeep ? 1 : 7).filter(
        (_, index) => index % oneOf[kind] === 0,
      );
      for (const { where, ...cut } of cuts) {
        server.restart(cut);
        await play({ where, ...cut }, server);
      }
      return cuts.length;
    }
    const all = ["clock", "weather Köln"];

    it("retries, runs each complete call once, and answers", async () => {
      let retried = 0;
      const cuts = await eachCut(async ({ where }, provider) => {
        const { agent, store, executed } = workplace(provider, 2);
        const reply = await agent.call("Hi", { sessionId: "s" });
        expect({ where, text: reply.text, executed: executed() }).toEqual({
          where,
          text: "Sonnig, und spät.",
          executed: all,
        });
        await expectSound(store, where);
        retried += provider.requests.length - 2;
      });
      expect(retried).toBeGreaterThan(cuts / 2);
    });

    it("fails without retries, runs no call, and leaves the session usable", async () => {
      let failures = 0;
      const cuts = await eachCut(async ({ where }, provider) => {
        const { agent, store, executed } = workplace(provider, 1);
        const code = await agent.call("Hi", { sessionId: "s" }).then(
          () => "none",
          (error) => error.code,
        );
        // What breaks after the model has finished takes nothing from what it said.
        expect({ where, executed: executed() }).toEqual({
          where,
          executed: code === "none" ? all : [],
        });
        await expectSound(store, where);
        if (code === "none") return;
        failures += 1;
        expect({ where, code }).toEqual({
          where,
          code: expect.stringMatching(/^(stream_cut|provider_error)$/),
        });
        const { text } = await agent.call("Once more.", { sessionId: "s" });
        expect({ where, text, executed: executed() }).toEqual({
          where,
          text: "Sonnig, und spät.",
          executed: all,
        });
        await expectSound(store, where);
      });
      expect(failures).toBeGreaterThan(cuts / 2);
    });
  },
);
