import { RivuletError } from "../../protocol/error.ts";

/** A tool throws it to say in its own words what went wrong: the model reads the message as it is. */
export class ToolFailure extends RivuletError {
  override readonly name = "ToolFailure";
}
