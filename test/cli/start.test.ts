import { type ChildProcess, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { TaskEvent } from "../../src/protocol/event.ts";
import { materialize } from "../../src/protocol/materialize.ts";
import { emptyTree, reduce } from "../../src/protocol/reduce.ts";

const program = resolve("src/cli/main.ts");
const workspace = resolve("sample/workspace");
// Every connection attempt throws: the demo needs no network.
const offline = `data:text/javascript,${encodeURIComponent(
  'import net from "node:net"; const no = () => { throw new Error("no network here"); };' +
    "net.Socket.prototype.connect = no; globalThis.fetch = no;",
)}`;
const folders: string[] = [];

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "rivulet-start-"));
  folders.push(path);
  return path;
}

function copyOfWorkspace(): string {
  const path = folder();
  cpSync(workspace, path, { recursive: true, filter: (source) => !source.endsWith("reports") });
  return path;
}

afterAll(() => {
  for (const path of folders) rmSync(path, { recursive: true, force: true });
});

interface Outcome {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
  readonly lines: readonly string[];
}

/** Runs the program as `npm start -- --terminal` does, without a terminal. */
async function start(
  args: readonly string[],
  options: {
    readonly cwd?: string;
    readonly environment?: Readonly<Record<string, string>>;
    readonly onOutput?: (output: string, child: ChildProcess) => void;
  } = {},
): Promise<Outcome> {
  const { PATH = "", HOME = "", NODE_COMPILE_CACHE = "" } = process.env;
  const session = args.includes("--session") ? [] : ["--session", "demo"];
  const all = ["serve", "--demo", "--terminal", ...session, ...args];
  const child = spawn(process.execPath, ["--import", offline, program, ...all], {
    cwd: options.cwd ?? folder(),
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...options.environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    options.onOutput?.(output, child);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const { promise, resolve: settle } = Promise.withResolvers<number | null>();
  child.once("close", settle);
  const code = await promise;
  return { code, output, errors, lines: output.split("\n") };
}

/** Returns the lead's last message and its citations. */
function answerOf(lines: readonly string[], lead = "demo") {
  const own = lines
    .filter((line) => line.startsWith(`[${lead}] `))
    .map((line) => line.slice(lead.length + 3));
  const last = own.findLastIndex(
    (line) => !line.startsWith("says") && !line.startsWith("[^") && line !== "is completed",
  );
  const text = own
    .slice(last + 1)
    .filter((line) => line.startsWith("says"))
    .map((line) => line.slice(5));
  const citations = own.flatMap((line) => {
    const [, marker = "", path = "", number = "", cited = ""] =
      /^(\[\^\d+\]) (.+?):(\d+) {2}"(.*)"$/.exec(line) ?? [];
    return marker === "" ? [] : [{ marker, path, number: Number(number), cited }];
  });
  return { text: text.join("\n"), citations };
}

function lineOf(root: string, path: string, number: number): string {
  return readFileSync(join(root, path), "utf8").split("\n")[number - 1] ?? "";
}

/** Returns every marker of an answer with the sentence before it. */
function statementsOf(text: string) {
  return Array.from(text.matchAll(/([^\]\n]+?)(\[\^\d+\])/g), ([, sentence = "", marker = ""]) => ({
    sentence: sentence.trim(),
    marker,
  }));
}

// A run mostly waits for the paced model, so the runs can be concurrent.
describe.concurrent("`npm start -- --terminal`", () => {
  const environment = { OPENAI_API_KEY: "sk-not-to-be-spent" };
  let run: Promise<Outcome> | undefined;
  const ended = () => {
    run ??= start([], { environment });
    return run;
  };

  it("answers through several agents, with researchers in parallel", async () => {
    const { code, lines, errors } = await ended();
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    const agents = lines.flatMap((line) => /^\[(.+?)\] begins/.exec(line)?.[1] ?? []);
    expect(agents).toEqual(
      expect.arrayContaining([
        "demo",
        "demo/researcher",
        "demo/researcher#2",
        "demo/researcher/critic",
        "demo/researcher#2/critic",
        "demo/writer",
      ]),
    );
    const at = (line: string) => lines.indexOf(line);
    const [first, second] = ["[demo/researcher]", "[demo/researcher#2]"];
    expect(at(`${first} begins`)).toBeGreaterThan(-1);
    expect(at(`${second} begins`)).toBeLessThan(at(`${first} is completed`));
    expect(at(`${first} begins`)).toBeLessThan(at(`${second} is completed`));
    // The cataloguer is for questions about the library itself.
    expect(agents.filter((agent) => agent.includes("cataloguer"))).toEqual([]);
    expect(lines).toContain("[demo] is completed");
  });

  it("cites a real line of a real file for every sentence with a marker", async () => {
    const { text, citations } = answerOf((await ended()).lines);
    const statements = statementsOf(text);
    expect(statements.length).toBeGreaterThanOrEqual(4);
    expect(text).toContain("delta forms where");
    const markers = [...new Set(statements.map(({ marker }) => marker))];
    expect(markers).toEqual(markers.map((_, index) => `[^${index + 1}]`));
    expect(citations.map(({ marker }) => marker)).toEqual(markers);
    for (const { sentence, marker } of statements) {
      const lines = citations
        .filter((citation) => citation.marker === marker)
        .map(({ path, number, cited }) => {
          const line = lineOf(workspace, path, number);
          expect(line).toBe(cited);
          return line;
        });
      expect(lines, `${marker} ${sentence}`).toContain(sentence);
    }
  });

  it("denies approvals without a terminal, and says so", async () => {
    const { output, lines } = await ended();
    expect(output).toContain(
      "wants to call publish_report: denied, because there is no terminal for the question",
    );
    expect(output).toContain("Pass --yes to approve");
    expect(answerOf(lines).text).toContain("The report is not published:");
  });

  it("names the model, and explains how to use an API key that is set", async () => {
    const { lines, output } = await ended();
    expect(lines[0]).toBe(
      "model     demo:analyst, a built-in deterministic program: no API key, no network",
    );
    expect(lines[1]).toContain("OPENAI_API_KEY is set but not used");
    expect(lines[1]).toContain("--model openai:");
    expect(lines[1]).toContain("RIVULET_MODEL");
    expect(output).not.toContain("sk-not-to-be-spent");
  });

  it("ends with the token usage of each agent", async () => {
    const { output } = await ended();
    const used = output.slice(output.indexOf("\nused\n"));
    for (const agent of [
      "demo",
      "demo/researcher",
      "demo/researcher#2",
      "demo/researcher/critic",
      "demo/writer",
    ])
      expect(used).toMatch(new RegExp(`\\n {2}${agent} +in +[1-9]\\d* +out +[1-9]`));
  });
});

it.concurrent("publishes with --yes, with the current content of the workspace", async () => {
  const changed = copyOfWorkspace();
  const path = join(changed, "library/estuaries.md");
  const text = readFileSync(path, "utf8");
  writeFileSync(
    path,
    text.replace("can reach a height of nine metres", "can reach a height of ninety metres"),
  );
  const { code, output, lines } = await start([
    ...["--yes", "--workspace", changed],
    "How high is the bore of the Qiantang? Publish a report.",
  ]);
  expect(code).toBe(0);
  expect(output).toContain("wants to call publish_report: approved by --yes.");
  const answer = answerOf(lines);
  expect(answer.text).toContain("ninety metres");
  expect(answer.text).toContain("/reports/how-high-is-the-bore-of-the-qiantang.md.");
  const [report = ""] = readdirSync(join(changed, "reports"));
  const published = readFileSync(join(changed, "reports", report), "utf8");
  expect(published).toContain("ninety metres");
  expect(published).toMatch(/1\. library\/estuaries\.md:\d+/);
});

it.concurrent("reports that the library has no answer, and cites nothing", async () => {
  const { code, lines } = await start(["Who composed the opera Carmen?"]);
  expect(code).toBe(0);
  const { text } = answerOf(lines);
  expect(text).toBe(
    "The library has nothing that answers “Who composed the opera Carmen?” No article mentions “composed”, “opera” or “Carmen”.",
  );
  expect(lines.join("\n")).not.toMatch(/\[\^\d/);
});

it.concurrent("lists the library with a citation for each article", async () => {
  const { code, lines } = await start(["What is in this workspace?"]);
  expect(code).toBe(0);
  expect(lines).toContain("[demo/cataloguer] begins in the background");
  const { text, citations } = answerOf(lines);
  const articles = readdirSync(join(workspace, "library")).map((name) => `library/${name}`);
  expect(citations.map(({ path }) => path).sort()).toEqual(articles.sort());
  for (const { path, number, cited } of citations) {
    expect(lineOf(workspace, path, number)).toBe(cited);
    expect(text).toContain(cited);
  }
});

it.concurrent("prints only events with --json, one per line", async () => {
  const { code, output, errors } = await start([
    "--json",
    "Why do rivers meander? Publish a report.",
  ]);
  expect(code).toBe(0);
  const lines = output.trimEnd().split("\n");
  const events = lines.map((line) => JSON.parse(line) as TaskEvent);
  const document = JSON.stringify(materialize(reduce(emptyTree(), events)));
  expect(document).toContain("Rivers meander because");
  expect(events.at(-1)).toMatchObject({ type: "task.completed" });
  expect(errors).toContain("denied, because there is no terminal");
});

it.concurrent("prints only the answer with --quiet, with its sources numbered from 1", async () => {
  const { output } = await start(["--quiet", "Why do rivers meander?"]);
  const [text = "", sources = ""] = output.split(/\n\n(?=\[\^1\]: )/);
  const cited = [...text.matchAll(/\[\^(\d+)\]/g)].map(([, number]) => Number(number));
  expect(cited.length).toBeGreaterThan(1);
  expect([...new Set(cited)]).toEqual(Array.from(new Set(cited), (_, index) => index + 1));
  expect(sources.trimEnd().split("\n")).toHaveLength(new Set(cited).size);
});

it.concurrent("answers small talk alone", async () => {
  const { code, lines } = await start(["Hello there!"]);
  expect(code).toBe(0);
  expect(lines.filter((line) => line.includes("] begins"))).toEqual(["[demo] begins"]);
  expect(lines).toContain("answer");
});

it.concurrent("stores and continues a conversation with --session", async () => {
  const cwd = folder();
  const first = await start(["--session", "ann", "Why do rivers meander?"], { cwd });
  expect(first.code).toBe(0);
  expect(existsSync(join(cwd, ".rivulet/rivulet.db"))).toBe(true);
  const second = await start(["--session", "ann", "What is an oxbow lake?"], { cwd });
  expect(second.errors).toBe("");
  const { text, citations } = answerOf(second.lines, "ann");
  expect(text).toContain("oxbow lake");
  for (const { marker } of statementsOf(text))
    expect(citations.map((citation) => citation.marker)).toContain(marker);
});

it.concurrent("cancels the run on Ctrl-C", async () => {
  let isSent = false;
  const { code, output, lines } = await start([], {
    onOutput(output, child) {
      if (isSent || !output.includes("[demo/researcher] begins")) return;
      isSent = true;
      child.kill("SIGINT");
    },
  });
  expect(code).toBe(130);
  expect(output).toContain("The run was cancelled.");
  expect(lines).toContain("[demo] is cancelled");
});

it.concurrent("reports an unknown model without a stack trace", async () => {
  const { code, errors } = await start([], { environment: { RIVULET_MODEL: "opnai:x" } });
  expect(code).toBe(2);
  expect(errors).toMatch(/^rivulet: There is no provider "opnai"\. Known providers: /);
});
