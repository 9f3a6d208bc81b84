import { RivuletError } from "../../protocol/error.ts";

/** A tool throws it to say in its own words what went wrong: the model reads the message as it is. */
export class ToolFailure extends RivuletError {
  override readonly name = "ToolFailure";
}

/** Whether a tool has thrown one; whatever else it has thrown, looking at it must not throw. */
export function isToolFailure(error: unknown): boolean {
  try {
    return error instanceof ToolFailure;
  } catch {
    return false;
  }
}
