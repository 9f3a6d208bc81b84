/** The figures of a chaos run. */
export class Figures {
  readonly #counts = new Map<string, number>();
  readonly #times = new Map<string, number[]>();
  readonly #losses = new Map<string, number>();
  readonly #waiting = new Map<string, { readonly fence: string; readonly at: number }>();
  readonly #refusals = new Map<string, number>();

  count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  took(what: string, ms: number): void {
    this.#times.set(what, [...(this.#times.get(what) ?? []), ms]);
  }

  /** A client was refused, and tries again. */
  refused(error: unknown): void {
    const { code = String(error) } = error as { code?: string };
    this.#refusals.set(code, (this.#refusals.get(code) ?? 0) + 1);
  }

  /** The owner of a conversation is killed now. */
  lost(conversation: string, fence: string): void {
    this.#waiting.set(conversation, { fence, at: performance.now() });
  }

  /** The state of a conversation; a take-over of a suspect takes longer and does not count. */
  saw(conversation: string, fence: string, isHeld: boolean, losses: number): void {
    this.#losses.set(conversation, Math.max(losses, this.#losses.get(conversation) ?? 0));
    const waits = this.#waiting.get(conversation);
    if (waits === undefined || (waits.fence === fence && isHeld)) return;
    this.#waiting.delete(conversation);
    if (waits.fence !== fence && losses < 2) this.took("take-over", performance.now() - waits.at);
  }

  /** One line for each figure. */
  lines(size: { readonly runs: number; readonly leaseMs: number }): readonly string[] {
    const entries = (map: ReadonlyMap<string | number, number>) =>
      [...map].map(([what, times]) => `${what}: ${times}`).join(", ");
    const histogram = new Map<number, number>();
    for (const losses of this.#losses.values())
      histogram.set(losses, (histogram.get(losses) ?? 0) + 1);
    const times = [...this.#times].map(([what, all]) => {
      const sorted = all.toSorted((one, two) => one - two);
      const at = (share: number) =>
        Math.round(sorted[Math.floor(share * (sorted.length - 1))] ?? 0);
      return `${what}: ${sorted.length} times, median ${at(0.5)} ms, worst ${at(1)} ms`;
    });
    return [
      `${size.runs} runs, leases of ${size.leaseMs} ms; ${entries(this.#counts)}`,
      `conversations by their most losses in a row: ${entries(new Map([...histogram].sort(([a], [b]) => a - b)))}`,
      ...times,
      `refused and tried again: ${entries(this.#refusals) || "nothing"}`,
    ];
  }
}
