import { createInterface } from "node:readline";
import type { ReadStream, WriteStream } from "node:tty";
import { RivuletError } from "../base/error.ts";
import { ask } from "../client/index.ts";
import type { Reply, Run } from "../contract/index.ts";
import { isTerminal as hasEnded, type Tree } from "../protocol/index.ts";
import type { Backend } from "./backend.ts";
import { runCommand } from "./chat-commands.ts";
import type { Console } from "./console.ts";
import { decideAlone, decideHere } from "./decide.ts";
import { renderEnding } from "./ending.ts";
import { type Interactive, openInteractive } from "./interactive.ts";
import { cancelSignal, exitCodes, noteWaits, outcomeOf, waitText } from "./outcome.ts";
import { createPlainView } from "./plain-view.ts";
import { createRunView, type RunView } from "./run-view.ts";
import { cutTo, printable, wrap } from "./text.ts";

/** A chat and where it takes place. */
export interface ChatOptions {
  readonly console: Console;
  readonly backend: Backend;
  readonly sessionId: string;
  /** Returns the command that continues a session. */
  readonly resume: (sessionId: string) => string;
  readonly modelLines: readonly string[];
  readonly yes?: boolean;
  /** Whether the session may exist already. */
  readonly continues?: boolean;
  /** Called when the chat is open. */
  readonly onChat?: (chat: Chat) => void;
}

const idleHelp = ["Enter sends", "/help commands", "Ctrl-D leaves"];
const busyHelp = ["Enter steers", "Ctrl-C cancels", "Tab details"];
const answeredHelp = ["Enter sends", "Ctrl-C cancels", "Tab details"];
const frameMs = 80;
const clockMs = 500;

/** A chat in a terminal: one task at a time, with lines that can be typed at any moment. */
export class Chat {
  readonly terminal: Interactive;
  readonly backend: Backend;
  sessionId: string;
  /** The last session with a message, which the person can continue later. */
  usedSession: string | undefined;
  /** The view of the current or last run. */
  view: RunView | undefined;
  readonly #options: ChatOptions;
  readonly #ended = Promise.withResolvers<number>();
  #run: Run | undefined;
  #cancel: AbortController | undefined;
  /** Runs with a reply whose background tasks still work. */
  readonly #answered = new Set<Run>();
  #sending: Promise<number> | undefined;
  /** The reason why the run waits. */
  #wait: string | undefined;
  #isPainting = false;
  #lastInterrupt = 0;
  #clock: NodeJS.Timeout | undefined;

  constructor(options: ChatOptions) {
    const { console, backend, sessionId } = options;
    this.#options = options;
    this.backend = backend;
    this.sessionId = sessionId;
    const { stdin, stdout } = process;
    this.terminal = openInteractive(
      stdin as ReadStream,
      stdout as WriteStream,
      console.canvas.style,
    );
    this.terminal.status = (maxRows) => this.#status(maxRows);
    this.terminal.onInterrupt = () => this.#interrupt();
    this.terminal.onEnd = () => this.leave(0);
    this.terminal.onTab = () => {
      if (this.view) this.view.isExpanded = !this.view.isExpanded;
      this.terminal.refresh();
    };
    this.terminal.onLine = (text) => void this.#enter(text);
    this.#setHelp();
    const { showWarning } = console;
    console.showWarning = (text) =>
      this.terminal.isOpen ? this.print(printable(text)) : showWarning(text);
    for (const signal of ["SIGTERM", "SIGHUP"] as const)
      process.once(signal, () => this.leave(exitCodes.cancelled));
    process.once("exit", () => this.terminal.close());
  }

  get isBusy(): boolean {
    return this.#cancel !== undefined;
  }

  /** Resolves to the exit code when the person leaves. */
  get ended(): Promise<number> {
    return this.#ended.promise;
  }

  leave(code: number): void {
    clearInterval(this.#clock);
    this.#cancel?.abort(new Error("cancelled"));
    this.terminal.close();
    this.#ended.resolve(code);
  }

  /** Prints lines that stay; long ones are wrapped. */
  print(...lines: readonly string[]): void {
    this.terminal.screen.print(lines.flatMap((line) => wrap(line, this.terminal.screen.columns)));
  }

  /** Sends a message and shows the work until the reply; undefined continues a session. Returns the exit code. */
  send(text: string | undefined): Promise<number> {
    const sending = this.#send(text);
    this.#sending = sending;
    return sending;
  }

  async #send(text: string | undefined): Promise<number> {
    const { screen } = this.terminal;
    const cancel = new AbortController();
    this.#cancel = cancel;
    this.usedSession = this.sessionId;
    this.view = createRunView(screen, () => Date.now());
    const { view } = this;
    this.#setHelp();
    this.#clock ??= setInterval(() => this.terminal.refresh(), clockMs);
    const { promise: replied, resolve: onReply } = Promise.withResolvers<Reply>();
    const isCurrent = () => this.view === view;
    const work = ask(this.backend.agent, text, {
      sessionId: this.sessionId,
      signal: cancel.signal,
      view: {
        get tree() {
          return view.tree;
        },
        see: (event) => {
          if (!isCurrent()) return;
          const lines = view.see(event);
          if (lines.length > 0) screen.print(lines);
          this.#paintSoon();
        },
      },
      decide: (approval) =>
        this.#options.yes
          ? decideAlone(approval, true, (line) => this.print(line))
          : decideHere(approval, this.terminal, cancel.signal).catch((error: unknown) => {
              if (!cancel.signal.aborted) throw error;
              return approval.deny("The run was cancelled.");
            }),
      onRun: (run) => {
        this.#run = run;
      },
      onReply,
      onWait: (reason) => {
        this.#wait = reason && waitText(reason);
        this.terminal.refresh();
      },
    });
    try {
      const reply = await Promise.race([replied, work]);
      // The reply of a task with background work ends the turn; its agents stay on the screen until they end.
      view.isAnswered = true;
      screen.print(["", ...renderEnding(view.tree, screen), ""]);
      if (cancel.signal.aborted) this.print("The run was cancelled.", "");
      const run = this.#run as Run;
      this.#answered.add(run);
      const onEnd = () => {
        this.#answered.delete(run);
        this.#setHelp();
        this.#paintSoon();
      };
      void work.then(onEnd, onEnd);
      return outcomeOf(reply, cancel.signal);
    } catch (error) {
      if (isCurrent()) this.view = undefined;
      if (cancel.signal.aborted) return exitCodes.cancelled;
      if (text === undefined && isOver(error)) return exitCodes.completed;
      screen.print([
        "",
        ...errorLines(error, screen.columns).map((line) => screen.style("red", line)),
        "",
      ]);
      return exitCodes.failed;
    } finally {
      this.#cancel = undefined;
      this.#run = undefined;
      this.#setHelp();
      this.terminal.refresh();
    }
  }

  async #enter(text: string): Promise<void> {
    const { screen } = this.terminal;
    const typed = wrap(`${this.terminal.label}${printable(text)}`, screen.columns);
    screen.print(typed.map((line) => screen.style("bold", line)));
    try {
      if (text.startsWith("/")) await runCommand(text, this);
      else if (this.isBusy) await this.#steer(text);
      else await this.send(text);
    } catch (error) {
      this.print(...errorLines(error, screen.columns));
    }
  }

  /** A message for a task that has ended meanwhile is the next question. */
  async #steer(text: string): Promise<void> {
    const current = this.#sending;
    try {
      if (this.#run) return await this.#run.steer(text);
    } catch (error) {
      if (!isOver(error)) throw error;
    }
    await current;
    await this.send(text);
  }

  /** The first Ctrl-C cancels the run, empties the line or warns; the second one leaves at once. */
  #interrupt(): void {
    if (!this.isBusy && this.terminal.clearLine()) return;
    const now = Date.now();
    const isSecond = now - this.#lastInterrupt < 3_000;
    this.#lastInterrupt = now;
    if (isSecond) {
      this.leave(exitCodes.cancelled);
      process.exit(exitCodes.cancelled);
    }
    if (!this.isBusy && this.#answered.size === 0) {
      this.print("Ctrl-C again leaves.");
      return;
    }
    this.print("Cancelling. Ctrl-C again leaves at once.");
    this.#cancel?.abort(new Error("cancelled"));
    const report = (error: unknown) =>
      this.print(...errorLines(error, this.terminal.screen.columns));
    for (const run of this.#answered) run.cancel("cancelled").catch(report);
  }

  /** The agents, and what the run waits for. */
  #status(maxRows: number): readonly string[] {
    const { screen } = this.terminal;
    const waiting =
      this.#wait === undefined ? [] : [screen.style("yellow", cutTo(this.#wait, screen.columns))];
    const room = Math.max(0, maxRows - waiting.length);
    const isShown = this.view && this.#isShown(this.view.tree);
    return [...(isShown && this.view ? this.view.render(room) : []), ...waiting];
  }

  /** Agents stay on the screen while one of them works. */
  #isShown(tree: Tree): boolean {
    return this.isBusy || Object.values(tree.tasks).some(({ status }) => !hasEnded(status));
  }

  #setHelp(): void {
    const isAnswered = this.#answered.size > 0;
    this.terminal.help = this.isBusy ? busyHelp : isAnswered ? answeredHelp : idleHelp;
  }

  #paintSoon(): void {
    if (this.#isPainting) return;
    this.#isPainting = true;
    setTimeout(() => {
      this.#isPainting = false;
      this.terminal.refresh();
    }, frameMs).unref();
  }
}

/** Whether a task or session has nothing left to do. */
function isOver(error: unknown): boolean {
  const codes = /^(nothing_to_resume|not_found|task_ended)$/;
  return error instanceof RivuletError && codes.test(error.code);
}

/** An error in one or two lines, with what to do. */
function errorLines(error: unknown, columns: number): readonly string[] {
  const { message, hint } = error as Partial<RivuletError>;
  return wrap(printable(`${message ?? String(error)} ${hint ?? ""}`.trim()), columns);
}

/** Chats until the person leaves. */
export async function chat(options: ChatOptions): Promise<number> {
  if (!options.console.isTerminal) return chatInPipe(options);
  const { modelLines, backend } = options;
  const here = new Chat(options);
  here.print(`Rivulet · ${backend.agent.name}`, ...modelLines, "");
  options.onChat?.(here);
  here.terminal.refresh();
  if (options.continues) void here.send(undefined); // an unfinished task of the session
  const code = await here.ended;
  printResume(options, here.usedSession);
  await backend.close();
  return code;
}

function printResume({ console, resume }: ChatOptions, sessionId: string | undefined): void {
  if (sessionId === undefined) return;
  for (const line of wrap(`Continue with: ${resume(sessionId)}`, console.canvas.columns))
    console.print(line);
}

/** Sends one message in a terminal. */
export async function chatOnce(question: string, options: ChatOptions): Promise<number> {
  const here = new Chat(options);
  here.print(...options.modelLines, "", `> ${question}`);
  const code = await Promise.race([here.send(question), here.ended]);
  here.leave(code);
  printResume(options, here.usedSession);
  return code;
}

/** Chats without a terminal: each line of the input is a message. */
async function chatInPipe(options: ChatOptions): Promise<number> {
  const { console, backend, sessionId, yes = false } = options;
  const signal = cancelSignal(console);
  let code = 0;
  for await (const line of createInterface({ input: process.stdin, signal })) {
    if (line.trim() === "") continue;
    const view = createPlainView(console.print);
    try {
      const reply = await ask(backend.agent, line, {
        ...{ sessionId, signal, view },
        decide: (approval) => decideAlone(approval, yes, console.print),
        onWait: noteWaits(console.note),
      });
      code = outcomeOf(reply, signal);
    } catch (error) {
      console.note(errorLines(error, 1_000).join("\n"));
      code = exitCodes.failed;
    }
    if (signal.aborted) break;
  }
  await backend.close();
  return signal.aborted ? exitCodes.cancelled : code;
}
