import type { ServerResponse } from "node:http";
import type { FoundTask } from "./found-task.ts";
import { openSink } from "./sink.ts";
import { Follower, type OpenStream, type StreamOptions, type StreamSettings } from "./stream.ts";

/** The longest time between two groups of streams that may send heartbeats. */
const beatMs = 50;

/** The open streams of a server; one timer sends the heartbeats of all, a few at a time. */
export class Streams {
  readonly settings: StreamSettings;
  readonly #open = new Set<OpenStream>();
  #timer: ReturnType<typeof setInterval> | undefined;
  /** The streams that are still to be visited in this round. */
  #round: Iterator<OpenStream> | undefined;

  constructor(settings: StreamSettings) {
    this.settings = settings;
  }

  /** How many streams are open. */
  get count(): number {
    return this.#open.size;
  }

  /** Answers with a stream of events, or with 204 when there are no more. `onClose` is called after a stream. */
  async open(
    connection: {
      readonly request: Request;
      readonly outgoing: ServerResponse | undefined;
      readonly headers: Readonly<Record<string, string>>;
    },
    target: FoundTask,
    options: StreamOptions,
    onClose: (isFinal: boolean) => void,
  ): Promise<Response> {
    const { feeds } = this.settings;
    const feed = await feeds.use(target.root.taskId);
    try {
      const follower = new Follower(this.settings, feed, target, options);
      const hasMore = await follower.start();
      if (!hasMore) {
        feeds.release(feed);
        onClose(true);
        return new Response(null, { status: 204, headers: connection.headers });
      }
      const { request, outgoing, headers } = connection;
      const sink = openSink(request, outgoing, headers, this.settings.unsent);
      const untrack = this.track(follower);
      void follower.run(sink).finally(() => {
        untrack();
        feeds.release(feed);
        onClose(follower.isFinal);
      });
      return sink.response;
    } catch (error) {
      feeds.release(feed);
      throw error;
    }
  }

  /** Beats a stream and ends it with the server; returns the function that forgets it. */
  track(stream: OpenStream): () => void {
    this.#open.add(stream);
    this.#timer ??= this.#startTimer();
    return () => {
      this.#open.delete(stream);
      if (this.#open.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  #startTimer(): ReturnType<typeof setInterval> {
    const roundMs = this.settings.heartbeatMs / 3;
    const timer = setInterval(() => this.#beat(roundMs), Math.max(1, Math.min(beatMs, roundMs)));
    timer.unref();
    return timer;
  }

  /** Visits the streams whose turn it is: all of them once per round. */
  #beat(roundMs: number): void {
    const now = this.settings.clock.now();
    const count = Math.ceil((this.#open.size * beatMs) / Math.max(beatMs, roundMs));
    for (let visited = 0; visited < count; visited++) {
      this.#round ??= this.#open.values();
      const { value: stream } = this.#round.next();
      if (stream === undefined) this.#round = undefined;
      else stream.beat(now);
    }
  }

  /** Ends all streams; each reader gets another delay before it comes back. */
  async close(): Promise<void> {
    const open = [...this.#open];
    for (const stream of open) stream.shutDown(500 + Math.floor(Math.random() * 2_500));
    await Promise.all(open.map(({ done }) => done));
  }
}
