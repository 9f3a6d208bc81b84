import type { Fields } from "../../base/options.ts";
import * as is from "../../base/options.ts";
import type { Awaitable } from "../../base/time.ts";
import type { InputMessage } from "../../contract/index.ts";

/** The reader of a resource or a prompt. */
export interface McpReader {
  /** Absent on a server without users. */
  readonly userId?: string;
}

/** A document that clients of MCP can read. */
export interface McpResource {
  /** An address such as `docs://style`, or a template such as `docs://{page}`. */
  readonly uri: string;
  readonly name: string;
  readonly description?: string;
  readonly mimeType?: string;
  /** Returns a text or bytes for the values of the template; undefined if there is no such document. */
  read(
    values: Readonly<Record<string, string>>,
    reader: McpReader,
  ): Awaitable<string | Uint8Array | undefined>;
}

/** A prompt that users of MCP clients can pick. */
export interface McpPrompt {
  readonly name: string;
  readonly description?: string;
  /** What each argument means, by name; all are required. */
  readonly arguments?: Readonly<Record<string, string>>;
  /** Returns the text of a user's message, or several messages. */
  render(
    values: Readonly<Record<string, string>>,
    reader: McpReader,
  ): Awaitable<string | readonly InputMessage[]>;
}

/** What a server offers to clients of MCP besides its agents. */
export interface McpOffer {
  readonly resources?: readonly McpResource[];
  readonly prompts?: readonly McpPrompt[];
}

/** A skill of an agent. */
export interface McpSkill {
  readonly name: string;
  readonly description: string;
  read(): Promise<string>;
}

/** All that a server offers besides its agents: its options, and the skills of its agents. */
export interface McpServed extends McpOffer {
  readonly skills?: () => Promise<readonly McpSkill[]>;
}

const resourceFields: Fields<McpResource> = {
  uri: is.required(
    { fits: (value) => /^[a-z][a-z0-9+.-]*:\S+$/.test(String(value)), expected: "a URI" },
    '"docs://style"',
  ),
  name: is.required(is.name, '"style"'),
  description: is.text,
  mimeType: is.name,
  read: is.required(is.callback),
};
const promptFields: Fields<McpPrompt> = {
  name: is.required(is.name, '"review"'),
  description: is.text,
  arguments: is.recordOf(is.text),
  render: is.required(is.callback),
};

/** The rules for the options of the adapter. */
export const mcpOfferFields: Fields<McpOffer> = {
  resources: is.listOf(is.options(resourceFields)),
  prompts: is.listOf(is.options(promptFields)),
};
