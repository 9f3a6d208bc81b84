import type { CheckRule } from "../../../src/protocol/check/check.ts";
import type { Change } from "./edit-log.ts";
import { itemKills } from "./item-kills.ts";
import { streamKills } from "./stream-kills.ts";
import { taskKills } from "./task-kills.ts";

/** The mutations that each rule finds, by name. */
export type Kills<R extends CheckRule> = Readonly<Record<R, Readonly<Record<string, Change>>>>;

/** Every rule and the hand-made mutations that it finds. */
export const kills: Kills<CheckRule> = { ...streamKills, ...taskKills, ...itemKills };
