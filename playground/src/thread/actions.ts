import { api } from "../state/api.ts";
import { announce, setUi, showError } from "../state/ui.ts";

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
