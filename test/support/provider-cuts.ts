import { framesOf, type ProviderKind, type ProviderTurn } from "./provider-frames.ts";

/** Where a provider's reply is cut off, and how. */
export interface Cut {
  readonly cutAfterBytes: number;
  readonly cutBy: "break" | "end";
  /** For messages of tests. */
  readonly where: string;
}

/**
 * The cuts of a turn: both ways within two bytes of every event's end, and at every `step`th byte in turn one way and
 * the other; both ways there, too, when `step` is 1.
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
