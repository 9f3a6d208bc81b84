/** The work of a run of the chaos run besides its three calls of a tool. */
export const kinds = ["plain", "nested", "background", "asking"] as const;
/** One of these. */
export type Kind = (typeof kinds)[number];

/** The settings of a process of the chaos run. */
export interface NodeSettings {
  /** The address of the database, through the proxy. */
  readonly url: string;
  readonly role: "worker" | "web";
  readonly leaseMs: number;
  /** The file that tools write their executions to. */
  readonly executions: string;
}
