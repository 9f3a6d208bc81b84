import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import { z } from "zod";
import { memoryStore, tool } from "../../src/index.ts";
import { expectLawful, readLog } from "../agent/support/laws.ts";
import { serveAgents } from "../client/support/serving.ts";
import {
  guessedRootId,
  hostileServer,
  insert,
  type Sent,
  type Story,
} from "./support/hostile-server.ts";
import { on, rootOf, scripted, serveOne, spawn, storeOf } from "./support/team.ts";

/** A picture of a size, and the name of its blob. */
function picture(bytes: number, fill = 7) {
  const data = Buffer.alloc(bytes, fill);
  return { data, name: `sha256-${createHash("sha256").update(data).digest("hex")}` };
}

/** A tool that returns pictures. */
function draw(...pictures: readonly { readonly data: Buffer }[]) {
  return tool({
    name: "draw",
    description: "Draws.",
    input: z.object({}),
    execute(_, { emit }) {
      for (const { data } of pictures)
        emit({ type: "image", source: { data: data.toString("base64"), mimeType: "image/png" } });
      return "drawn";
    },
  });
}

it("copies the pictures of a grandchild two servers away, so that readers of the root can fetch them", async () => {
  const { data, name } = picture(200_000);
  await using third = await serveOne(
    scripted("cleaner", [[{ call: "draw", input: {} }], "Clean."], { tools: [draw({ data })] }),
  );
  await using second = await serveOne(
    scripted("reviewer", [[spawn("cleaner")], "Good."], { subagents: [on(third, "cleaner")] }),
  );
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(second, "reviewer")],
  });
  await using first = await serveAgents([lead]);
  const reply = await first.remote.agent("lead").call("Go.", { sessionId: "s" });
  expect(reply.text).toBe("Done.");
  const store = storeOf(lead);
  const rootId = await rootOf(store, "s");
  await expectLawful(store, rootId);
  const shown = (await readLog(store, rootId)).find(({ type }) => type === "task.image.done");
  const cleaner = (await store.tasks({ conversation: "s" })).find(
    ({ agentId }) => agentId === "cleaner",
  );
  const blob = `task://${cleaner?.taskId}/blobs/${name}`;
  expect(shown).toMatchObject({ item: { image_url: { url: blob } } });
  // The other servers are not needed any more.
  await third.server.close();
  await second.server.close();
  const response = await fetch(`${first.server.url}/v1/tasks/${cleaner?.taskId}/blobs/${name}`, {
    headers: { authorization: `Bearer ${first.server.token}` },
  });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("image/png");
  expect(Buffer.from(await response.arrayBuffer()).equals(data)).toBe(true);
});

it("leaves pictures over the limits on their server, and completes the child", async () => {
  const [small, large] = [picture(70_000, 1), picture(9_000_000, 2)];
  const more = [3, 4].map((fill) => picture(90_000, fill));
  const all = [small, large, ...more];
  const reviewer = scripted("reviewer", [[{ call: "draw", input: {} }], "Good."], {
    tools: [draw(...all)],
  });
  await using far = await serveOne(reviewer);
  const lead = scripted("lead", [[spawn("reviewer")], "Done."], {
    subagents: [on(far, "reviewer", { limits: { maxBytes: 200_000 } })],
  });
  await lead.call("Go.", { sessionId: "s" });
  const store = storeOf(lead);
  const [child] = await store.tasks({ parentSessionId: "s" });
  expect(child?.status).toBe("completed");
  const path = ({ name }: { readonly name: string }) => `blobs/${child?.taskId}/${name}`;
  const has = async (owner: typeof store) =>
    Promise.all(all.map(async (one) => (await owner.files.get(path(one))) !== undefined));
  expect(await has(storeOf(reviewer))).toEqual([true, true, true, true]);
  expect(await has(store)).toEqual([true, false, true, false]);
});

/** The behaviour of a server that shows a picture, and answers the request for its bytes. */
function showing(name: string, bytes: Buffer | undefined, owner = (story: Story) => story.taskId) {
  return {
    change(story: Story) {
      const place = { item_id: "msg_1", output_index: 0, block_index: 1 };
      const image_url = { url: `task://${owner(story)}/blobs/${name}` };
      const item: Sent = { type: "image", image_url, mime_type: "image/png" };
      const done = story.events[7] as { item: { block_list: Sent[] } };
      done.item.block_list.push(item);
      insert(story, 7, { type: "task.image.done", ...place, item });
    },
    blob: bytes,
  };
}

it.each([
  ["other bytes than it has named", "remote_invalid", Buffer.from("other"), 0],
  ["no bytes", "completed", undefined, 0],
  ["the bytes", "completed", picture(10).data, 1],
])("a server that sends %s ends its child with %s", async (_, outcome, bytes, copies) => {
  await using server = await hostileServer(showing(picture(10).name, bytes));
  const { store, child } = await runFar(server.url);
  expect(child?.error?.code ?? child?.status).toBe(outcome);
  const kept = await store.files.get(`blobs/${child?.taskId}/${picture(10).name}`);
  expect(kept === undefined ? 0 : 1).toBe(copies);
});

it("copies nothing into another task", async () => {
  const { data, name } = picture(10);
  await using server = await hostileServer(showing(name, data, ({ rootId }) => rootId));
  const { store, child } = await runFar(server.url);
  expect(child?.status).toBe("completed");
  expect(await store.files.get(`blobs/${await rootOf(store, "s")}/${name}`)).toBe(undefined);
  expect(server.requests.filter(({ path }) => path.includes("/blobs/"))).toEqual([]);
});

/** Runs a child on a server and returns its record. */
async function runFar(url: string) {
  const store = memoryStore();
  const far = { name: "far", description: "Far.", url: `${url}/agents/a` };
  const lead = scripted("lead", [[spawn("far")], "Done."], {
    store,
    subagents: [{ ...far, allowPrivateNetwork: true, limits: { lostAfterMs: 100 } }],
  });
  await lead.call("Go.", { sessionId: "s", taskId: guessedRootId });
  const [child] = await store.tasks({ parentSessionId: "s" });
  await expectLawful(store, await rootOf(store, "s"));
  return { store, child };
}
