import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { buildPage } from "../../../scripts/build-page.ts";
import type { Agent, Store } from "../../../src/index.ts";
import { type ServeOptions, type Serving, serve } from "../../../src/server.ts";
import { sqliteStore } from "../../../src/store/index.ts";

const flags = [
  ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
];

/** Builds the page and starts Debian's Chromium. */
export async function launch(): Promise<Browser> {
  await buildPage();
  return chromium.launch({ executablePath: "/usr/bin/chromium", args: flags });
}

/** A place where a tool or a model of the test waits until the test lets it pass. */
export class Gates {
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();

  at(name: string): Promise<void> {
    return this.#gate(name).promise;
  }

  open(...names: readonly string[]): void {
    for (const name of names) this.#gate(name).resolve();
  }

  /** Lets everything pass that waits or will wait. */
  openAll(): void {
    this.open(...this.#gates.keys());
  }

  #gate(name: string): PromiseWithResolvers<void> {
    const gate = this.#gates.get(name) ?? Promise.withResolvers<void>();
    this.#gates.set(name, gate);
    return gate;
  }
}

export interface SceneOptions extends Omit<ServeOptions, "agents" | "store"> {
  readonly browser: Browser;
  /** The agents of a process; called again when the server restarts. */
  readonly team: (store: Store, gates: Gates) => readonly Agent[];
  readonly width?: number;
  readonly height?: number;
  readonly theme?: "light" | "dark";
}

/** A server with the page, and a tab on it. */
export interface Scene extends AsyncDisposable {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly gates: Gates;
  /** What the console and uncaught errors said, without the requests that a stopped server refuses. */
  readonly errors: string[];
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Types a question and sends it. */
  ask(question: string): Promise<void>;
  /** Opens all threads, also those that have folded themselves. */
  unfold(): Promise<void>;
  /** Words in the conversation. */
  said(text: string | RegExp): ReturnType<Page["locator"]>;
  /** The thread of an agent, by its name. */
  thread(name: string): ReturnType<Page["locator"]>;
  /** Reads JSON from the server. */
  read<T>(path: string): Promise<T>;
  /** Stops the process as a crash would, without a goodbye to its readers, and returns a function that starts the next. */
  crash(): Promise<() => Promise<void>>;
}

export async function openScene(options: SceneOptions): Promise<Scene> {
  const { browser, team, width = 1440, height = 900, theme = "light", ...serveOptions } = options;
  const directory = mkdtempSync(join(tmpdir(), "rivulet-playground-"));
  const token = "a-token-of-the-browser-tests";
  const gates = new Gates();
  const begin = async (port: number): Promise<readonly [Store, Serving]> => {
    const opened = sqliteStore(join(directory, "rivulet.db"));
    const started = await serve({
      ...{ port, token, page: true, prompts: true, log: false, retryMs: 200, shutdownMs: 200 },
      ...serveOptions,
      agents: team(opened, gates),
    });
    return [opened, started];
  };
  let [store, serving] = await begin(0);
  const { url, pageUrl = "" } = serving;
  const port = Number(new URL(url).port);
  const headers = { authorization: `Bearer ${token}` };
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    permissions: ["clipboard-read", "clipboard-write"],
    acceptDownloads: true,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const errors: string[] = [];
  page.on("pageerror", ({ message }) => errors.push(message));
  page.on("console", (message) => {
    const isRefused = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED/;
    if (message.type() === "error" && !isRefused.test(message.text())) errors.push(message.text());
  });
  await page.goto(pageUrl);
  await page.getByText("Connected").waitFor();
  return {
    ...{ page, context, gates, errors, url, headers },
    async ask(question) {
      await page.locator("#composer").fill(question);
      await page.keyboard.press("Enter");
      await page.locator(".thread").first().waitFor();
    },
    async unfold() {
      await page.getByRole("button", { name: "Fold all" }).click();
      await page.getByRole("button", { name: "Unfold all" }).click();
    },
    said: (text) => page.locator(".talk").getByText(text).first(),
    thread: (name) => page.locator(`.thread[aria-label="${name}"]`),
    async read<T>(path: string) {
      const response = await fetch(`${url}${path}`, { headers });
      return (await response.json()) as T;
    },
    async crash() {
      await serving.close();
      await store.close();
      return async () => {
        [store, serving] = await begin(port);
      };
    },
    async [Symbol.asyncDispose]() {
      gates.openAll();
      await context.close();
      await serving.close();
      await store.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
