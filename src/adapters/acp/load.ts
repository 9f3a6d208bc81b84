import { RivuletError } from "../../base/error.ts";

const sdkPackage = "@agentclientprotocol/sdk";

/** Loads the connection and with it the package of the protocol. */
export function loadAcp(): Promise<typeof import("./editor.ts")> {
  return import("./editor.ts").catch((cause: unknown) => {
    if (!String((cause as Error).message).includes(sdkPackage)) throw cause;
    const message = `rivulet acp requires the package ${sdkPackage}, which is not installed.`;
    const hint = `Run \`npm i ${sdkPackage}\`.`;
    throw new RivuletError("acp_not_installed", message, { hint, cause });
  });
}
