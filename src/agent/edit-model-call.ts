import { RivuletError } from "../protocol/error.ts";
import type { Message } from "../protocol/message.ts";
import type { HookContext, ModelCall } from "./hook.ts";
import { callHooks, type RunHooks } from "./hook.ts";
import { copyPlain, isSame } from "./plain.ts";
import { isModelCall, readModelCall } from "./verdict.ts";

/**
 * Lets hooks edit a model call. They get copies of everything, which they may change in place; the messages are copied
 * when the first hook looks at them, since most look only at the rest.
 */
export async function editModelCall(
  run: RunHooks,
  point: "preReasoning" | "preSummary",
  context: HookContext,
  call: ModelCall,
): Promise<ModelCall> {
  if (!run.hooks.some((hook) => hook[point])) return call;
  let copies: readonly Message[] = [];
  let messages: Message[] | undefined;
  const own: ModelCall = {
    get messages() {
      if (messages === undefined) {
        copies = call.messages.map(copyOf);
        messages = [...copies];
      }
      return messages;
    },
    set messages(edited) {
      messages = edited;
    },
    system: call.system,
    tools: [...call.tools],
    options: copyPlain(call.options),
  };
  const edited = await callHooks(
    run,
    point,
    own,
    (hook, current) => hook[point]?.(context, current),
    (current, returned) => readModelCall(returned, current),
  );
  const isUnseen = edited === own && messages === undefined;
  const { system, tools, options } = edited;
  const seen = isUnseen ? [] : edited.messages;
  // What they return is read as they return it; what they change in place can be seen only now.
  if (!isModelCall({ messages: seen, system, tools, options })) throw broken(run, point);
  const shown = isUnseen ? call.messages : unedited(seen, copies, call.messages);
  return { messages: shown, system, tools, options };
}

function broken({ hooks }: RunHooks, point: "preReasoning" | "preSummary"): RivuletError {
  const names = hooks.flatMap((hook) => (hook[point] ? [hook.name] : [])).join(", ");
  return new RivuletError(
    "hook_failed",
    `In ${point}, what ${names} made of the model call is none.`,
    {
      hint: "A hook may edit its copy of the call in place, to something that it could return as well.",
    },
  );
}

const known = new WeakMap<Message, Message>();

/** The copy of a message; one that nobody has changed serves the next call as well. */
function copyOf(message: Message): Message {
  const last = known.get(message);
  if (last && isSame(last, message)) return last;
  const copy = copyPlain(message);
  known.set(message, copy);
  return copy;
}

/** The transcript's own messages in place of copies that nobody has changed: the model's view of those is known. */
function unedited(
  messages: readonly Message[],
  copies: readonly Message[],
  originals: readonly Message[],
): Message[] {
  const places = new Map(copies.map((copy, index) => [copy, index]));
  return messages.map((message) => {
    const original = originals[places.get(message) ?? -1];
    return original && isSame(message, original) ? original : message;
  });
}
