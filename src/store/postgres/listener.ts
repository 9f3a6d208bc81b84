import type { Client } from "pg";
import { RivuletError } from "../../base/error.ts";
import type { Settings } from "./options.ts";
import { connect, unref } from "./pg-connection.ts";

/** How long a message to this process itself may take. */
const echoMs = 2_000;
const pingMs = 10_000;
const [shortestPauseMs, longestPauseMs] = [100, 60_000];

/** The callbacks of a listener. */
export interface ListenerEvents {
  /** A message has come. */
  message(text: string): void;
  /** Messages come again, or no longer: some may be lost. */
  changed(): void;
  /** Sends a message to this process itself, on another connection. */
  ping(): Promise<void>;
}

/** A connection that gets the messages of other processes, and finds out when they no longer come. */
export class Listener {
  readonly #settings: Settings;
  readonly #channel: string;
  readonly #events: ListenerEvents;
  #client: Client | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #echo: (() => void) | undefined;
  #pauseMs = shortestPauseMs;
  #soundAt: number | undefined;
  #isClosed = false;
  #hasWarned = false;

  constructor(settings: Settings, channel: string, events: ListenerEvents) {
    this.#settings = settings;
    this.#channel = channel;
    this.#events = events;
    void this.#listen();
  }

  /** Whether messages come. */
  get isSound(): boolean {
    return this.#soundAt !== undefined;
  }

  /** For how long messages have come. */
  get soundMs(): number {
    return this.#soundAt === undefined ? 0 : performance.now() - this.#soundAt;
  }

  /** Called when a message of this process itself has come. */
  echo(): void {
    this.#echo?.();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#drop();
  }

  async #listen(): Promise<void> {
    try {
      const { listenUrl, url } = this.#settings;
      const client = await connect(this.#settings, listenUrl ?? url);
      if (this.#isClosed) return void client.end().catch(() => {});
      this.#client = client;
      client.on("notification", ({ payload = "" }) => this.#events.message(payload));
      client.once("end", () => this.#lost(client));
      await client.query(`LISTEN "${this.#channel}"`);
      unref(client);
      await this.#check(client);
    } catch {
      this.#retry();
    }
  }

  /** Messages that do not come back mean a lost connection, or a pooler that gives it to another client. */
  async #check(client: Client): Promise<void> {
    const came = new Promise<boolean>((resolve) => {
      const timer = setTimeout(resolve, echoMs, false);
      timer.unref();
      this.#echo = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
    await this.#events.ping();
    const isSound = await came;
    if (this.#client !== client) return;
    if (!isSound) {
      this.#warn();
      this.#drop();
      this.#retry();
      return;
    }
    const isNew = !this.isSound;
    this.#soundAt ??= performance.now();
    this.#pauseMs = shortestPauseMs;
    if (isNew) this.#events.changed();
    this.#after(pingMs, () => void this.#check(client).catch(() => this.#lost(client)));
  }

  #lost(client: Client): void {
    if (this.#client !== client) return;
    this.#drop();
    this.#retry();
  }

  #drop(): void {
    const client = this.#client;
    this.#client = undefined;
    client?.end().catch(() => {});
    if (!this.isSound) return;
    this.#soundAt = undefined;
    if (!this.#isClosed) this.#events.changed();
  }

  #retry(): void {
    this.#drop();
    const ms = this.#pauseMs * (0.5 + Math.random() / 2);
    this.#pauseMs = Math.min(2 * this.#pauseMs, longestPauseMs);
    this.#after(ms, () => void this.#listen());
  }

  #after(ms: number, work: () => void): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(work, ms);
    this.#timer.unref();
  }

  #warn(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    this.#settings.onProblem(
      new RivuletError(
        "no_notifications",
        `${this.#settings.place} delivers no notifications; the store looks for changes every 50 ms instead.`,
        {
          hint: "If it is PgBouncer in transaction mode, pass the database itself as `listenUrl`.",
        },
      ),
    );
  }
}
