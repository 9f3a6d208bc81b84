import { Conversation } from "./conversation.ts";
import { unfinished } from "./drivers.ts";
import { lookAfter, startRoot } from "./root.ts";
import type { AgentSettings } from "./settings.ts";

/**
 * Takes up what a conversation has left, if no other process has it: its unfinished task, what was posted to it, its
 * background tasks. Resolves when this process is done with it: all has ended, or waits for somebody.
 */
export async function resumeConversation(
  settings: AgentSettings,
  sessionId: string,
): Promise<void> {
  const { store } = settings;
  const [root] = await store.tasks({ sessionId, status: unfinished });
  const posts = await store.posts({ sessionId });
  const session = { sessionId, onBusy: "fail" } as const;
  if (root) await startRoot(settings, undefined, { ...session, only: root.taskId }).reply;
  else if (posts.some(({ kind }) => kind === "input")) {
    await startRoot(settings, undefined, { ...session, isWake: true }).reply;
  } else await attendOnly(settings, sessionId, "resume");
}

/** Fails what a conversation has left that no process drives any more. */
export function failConversation(settings: AgentSettings, sessionId: string): Promise<void> {
  return attendOnly(settings, sessionId, "fail");
}

async function attendOnly(
  settings: AgentSettings,
  sessionId: string,
  lostTasks: "resume" | "fail",
): Promise<void> {
  const { signal } = new AbortController();
  const entry = { settings, sessionId, onBusy: "fail", signal, lostTasks } as const;
  const conversation = await Conversation.enter(entry);
  lookAfter(conversation, settings);
  try {
    await conversation.attend();
    await Promise.allSettled([...conversation.drives.values()].map(({ ended }) => ended));
  } finally {
    await conversation.leave();
  }
}
