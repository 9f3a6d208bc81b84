import { duration } from "../state/format.ts";
import { momentOf, useLogView, useNow, useRunLog } from "./context.ts";

interface ElapsedProps {
  readonly from: number | undefined;
  readonly to?: number | undefined;
  readonly prefix?: string;
}

/** How long something has taken up to now, or up to the moment of the past that is shown. */
export function Elapsed({ from, to, prefix = "" }: ElapsedProps) {
  const log = useRunLog();
  const moment = useLogView(log, () => momentOf(log));
  const isHeld = useLogView(log, ({ healing }) => healing?.status === "held");
  const isOpen = useLogView(log, ({ connection }) => connection.status !== "closed");
  const now = useNow(to === undefined && moment === undefined && !isHeld && isOpen);
  if (from === undefined) return null;
  const end = to ?? moment ?? (now > 0 ? now : (log.events.at(-1)?.created_at ?? from));
  return (
    <span className="num">
      {prefix}
      {duration(end - from)}
    </span>
  );
}
