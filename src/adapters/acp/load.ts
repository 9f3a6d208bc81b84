import { onMissing } from "../../base/error.ts";

/** Loads the connection and with it the package of the protocol. */
export function loadAcp(): Promise<typeof import("./editor.ts")> {
  return import("./editor.ts").catch(
    onMissing("acp_not_installed", "rivulet acp requires", "@agentclientprotocol/sdk"),
  );
}
