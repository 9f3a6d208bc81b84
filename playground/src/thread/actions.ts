import type { RivuletError } from "rivulet/protocol";
import { api } from "../state/api.ts";
import { announce, setUi, showError } from "../state/ui.ts";

/** Ends the process of the demo; one that has ended already needs no second end. */
export async function killServer(): Promise<void> {
  await api.kill().catch((error: RivuletError) => {
    if (error.code !== "unreachable") showError(error);
  });
}

/** Cancels a task and its descendants. */
export async function cancelTask(taskId: string): Promise<void> {
  try {
    await api.cancel(taskId);
    setUi({ notice: undefined });
    announce("The agent and its children are being cancelled.");
  } catch (error) {
    showError(error);
  }
}
