import { fileURLToPath } from "node:url";
import type { Model } from "../agent/model/resolve.ts";
import { localFilesystem } from "../harness/filesystem/local.ts";
import { HarnessAgent } from "../harness/harness-agent.ts";
import { publishReport } from "./publish-report.ts";

/** The workspace that comes with the repository. */
export const sampleWorkspace = fileURLToPath(new URL("../../sample/workspace", import.meta.url));

/** The lead of the team that a workspace declares. */
export function sampleTeam(options: {
  readonly model: Model;
  readonly workspace: string;
  readonly store: string;
}): HarnessAgent {
  return new HarnessAgent({
    name: "lead",
    ...options,
    tools: [publishReport(localFilesystem(options.workspace))],
    references: true,
  });
}
