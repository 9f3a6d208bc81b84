import { openRecording } from "./sessions.ts";
import { showError } from "./ui.ts";

/** Replays a run file. */
export async function openFile(file: File): Promise<void> {
  try {
    const { readRecording } = await import("./recording.ts");
    openRecording(await readRecording(file), file.name);
  } catch (error) {
    showError(error);
  }
}
