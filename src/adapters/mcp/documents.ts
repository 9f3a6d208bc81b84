import {
  completable,
  type McpServer,
  type PromptMessage,
  ResourceNotFoundError,
  ResourceTemplate,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { asBlocks } from "../../contract/index.ts";
import { contentOf } from "./content.ts";
import type { McpOffer, McpPrompt, McpReader, McpResource } from "./offer.ts";
import type { McpCall } from "./runs.ts";

type CallOf = (ctx: ServerContext) => McpCall;

/** Adds the resources and prompts of a server. */
export function addDocuments(
  mcp: McpServer,
  { resources = [], prompts = [] }: McpOffer,
  callOf: CallOf,
): void {
  for (const resource of resources) addResource(mcp, resource, callOf);
  for (const prompt of prompts) addPrompt(mcp, prompt, callOf);
}

function readerOf({ caller }: McpCall): McpReader {
  return caller.userId === undefined ? {} : { userId: caller.userId };
}

function addResource(mcp: McpServer, resource: McpResource, callOf: CallOf): void {
  const { name, uri: pattern, description, mimeType } = resource;
  const about = {
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
  };
  const read = async (uri: URL, values: Readonly<Record<string, string>>, ctx: ServerContext) => {
    const data = await resource.read(values, readerOf(callOf(ctx)));
    if (data === undefined) throw new ResourceNotFoundError(uri.href);
    const place = { uri: uri.href, ...(mimeType !== undefined && { mimeType }) };
    const content =
      typeof data === "string"
        ? { ...place, text: data }
        : { ...place, blob: Buffer.from(data).toString("base64") };
    return { contents: [content] };
  };
  if (!pattern.includes("{")) {
    mcp.registerResource(name, pattern, about, (uri, ctx) => read(uri, {}, ctx));
    return;
  }
  const template = new ResourceTemplate(pattern, { list: undefined });
  mcp.registerResource(name, template, about, (uri, variables, ctx) => {
    const values = Object.entries(variables).map(([key, value]) => [key, String(value)]);
    return read(uri, Object.fromEntries(values) as Record<string, string>, ctx);
  });
}

function addPrompt(mcp: McpServer, prompt: McpPrompt, callOf: CallOf): void {
  const { name, description, arguments: named = {} } = prompt;
  const shape = Object.fromEntries(
    Object.entries(named).map(([key, about]) => [
      key,
      completable(z.string().describe(about), () => []),
    ]),
  );
  const about = description === undefined ? {} : { description };
  const render = async (values: Readonly<Record<string, string>>, ctx: ServerContext) => {
    const call = callOf(ctx);
    const rendered = await prompt.render(values, readerOf(call));
    const given = typeof rendered === "string" ? [{ role: "user", content: rendered }] : rendered;
    const messages = given.flatMap(({ role, content }) =>
      contentOf(asBlocks(content), call.addressOf).map(
        (block): PromptMessage => ({
          role: role === "assistant" ? "assistant" : "user",
          content: block,
        }),
      ),
    );
    return { messages };
  };
  if (Object.keys(named).length === 0) mcp.registerPrompt(name, about, (ctx) => render({}, ctx));
  else
    mcp.registerPrompt(name, { ...about, argsSchema: z.object(shape) }, (values, ctx) =>
      render(values as Record<string, string>, ctx),
    );
}
