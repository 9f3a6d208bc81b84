import { framesOf, type ProviderKind, type ProviderTurn } from "./provider-frames.ts";

/** The position and kind of a cut in a provider's reply. */
export interface Cut {
  readonly cutAfterBytes: number;
  readonly cutBy: "break" | "end";
  /** The description in test messages. */
  readonly where: string;
}

/**
 * Returns the cuts of a turn: both kinds within two bytes of the end of every event, and alternating kinds at every
 * `step`th byte, or both kinds if `step` is 1.
 */
export function cutsOf(kind: ProviderKind, turn: ProviderTurn, step: number): readonly Cut[] {
  const frames = framesOf(kind, turn);
  const total = Buffer.byteLength(frames.join(""));
  const cuts = new Map<number, readonly Cut["cutBy"][]>();
  for (let at = 0; at < total; at += step) {
    cuts.set(at, step === 1 ? ["break", "end"] : [at % 2 === 0 ? "break" : "end"]);
  }
  let boundary = 0;
  for (const frame of frames) {
    boundary += Buffer.byteLength(frame);
    for (let near = boundary - 2; near <= boundary + 2; near++) cuts.set(near, ["break", "end"]);
  }
  return [...cuts].flatMap(([cutAfterBytes, ways]) =>
    cutAfterBytes >= total
      ? []
      : ways.map((cutBy) => {
          const where = `cut by ${cutBy} after ${cutAfterBytes} of ${total} bytes`;
          return { cutAfterBytes, cutBy, where };
        }),
  );
}
