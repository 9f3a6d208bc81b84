import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import type { EvalReport } from "../../src/testing.ts";
import { rivulet } from "./support/program.ts";

const directory = mkdtempSync(join(tmpdir(), "rivulet-evals-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const source = (name: string) => JSON.stringify(pathToFileURL(resolve("src", name)).href);

/** A folder with an eval of two variants: one answers both cases, the other answers one and breaks on the other. */
function folder(name = "capitals"): string {
  const place = mkdtempSync(join(directory, "f"));
  mkdirSync(join(place, "evals"));
  writeFileSync(
    join(place, "evals", `${name}.eval.ts`),
    `import { appendFileSync } from "node:fs";
    import { ReActAgent } from ${source("index.ts")};
    import { contains, defineEval, exact, scriptedModel } from ${source("testing.ts")};
    const agent = (breaks) => new ReActAgent({ name: "guide", model: scriptedModel(({ prompt }) => {
      appendFileSync("calls.log", "x");
      const isFrance = JSON.stringify(prompt).includes("France");
      return breaks && !isFrance ? [{ error: new Error("The <model>\\u0007 & broke.") }] : isFrance ? "Paris" : "It is Rome.";
    }) });
    export default defineEval({
      name: ${JSON.stringify(name)},
      variants: { steady: agent(false), shaky: agent(true) },
      cases: [
        { name: "France", input: "The capital of France?", expected: "Paris" },
        { name: 'Italy "<&>"', input: "The capital of Italy?", expected: "Rome" },
      ],
      scorers: { exact: exact(), contains: contains() },
      retries: 0,
    });`,
  );
  return place;
}

const calls = (cwd: string) => readFileSync(join(cwd, "calls.log"), "utf8").length;

describe.concurrent("rivulet eval", () => {
  it("prints the matrix with means, and exits with 1 for errors", async () => {
    const cwd = folder();
    const { code, output, errors } = await rivulet(["eval"], { cwd });
    expect({ code, errors }).toEqual({ code: 1, errors: "" });
    expect(
      output
        .replace(/\d+\.\d s/g, "0.0 s")
        .split("\n")
        .map((line) => line.split(/\s{2,}/)),
    ).toMatchObject([
      ["capitals", "steady", "shaky"],
      [/^-+$/.exec(output.split("\n")[1] ?? "")?.[0]],
      ["France", "1.00", "1.00"],
      ['Italy "<&>"', "0.50", "error"],
      [expect.any(String)],
      ["exact", "0.50", "1.00"],
      ["contains", "1.00", "1.00"],
      ["score", "0.75", "1.00"],
      ["cost", "unknown", "unknown"],
      ["tokens", expect.any(String), expect.any(String)],
      ["time", "0.0 s", "0.0 s"],
      ["errors", "0", "1"],
      ['shaky on Italy "<&>"'],
      ["", expect.stringContaining("The <model>")],
      ["", expect.stringMatching(/^run: eval_/)],
      [""],
      [""],
    ]);
  });

  it("reads back what has ended, and runs failed cells again only with --retry-failed", async () => {
    const cwd = folder();
    await rivulet(["eval"], { cwd });
    expect(calls(cwd)).toBe(4);
    const again = await rivulet(["eval", "capitals", "--json"], { cwd });
    expect(calls(cwd)).toBe(4);
    const report = JSON.parse(again.output) as EvalReport;
    expect(report.total).toMatchObject({ cells: 4, scored: 3, errors: 1 });
    await rivulet(["eval", "capitals", "--retry-failed"], { cwd });
    expect(calls(cwd)).toBe(5);
  });

  it("lets the running cell end after Ctrl-C, exits with 130, and continues", async () => {
    const cwd = folder();
    const file = join(cwd, "evals", "capitals.eval.ts");
    const interrupted = `import { once } from "node:events";
      let isFirst = !process.env.CONTINUES;
      async function interrupt() {
        if (!isFirst) return;
        isFirst = false;
        const interrupted = once(process, "SIGINT");
        process.kill(process.pid, "SIGINT");
        await interrupted;
      }
      ${readFileSync(file, "utf8").replace("(({ prompt }) => {", "(async ({ prompt }) => { await interrupt();").replace("agent(true)", "agent(false)")}`;
    writeFileSync(file, interrupted);
    const stopped = await rivulet(["eval", "--json", "--concurrency", "1"], { cwd });
    expect(stopped.code).toBe(130);
    const { total } = JSON.parse(stopped.output) as EvalReport;
    expect(total).toMatchObject({ scored: 1, notRun: 3 });
    const { code } = await rivulet(["eval", "--json"], { cwd, env: { CONTINUES: "1" } });
    expect([code, calls(cwd)]).toEqual([0, 4]);
  });

  it("writes JUnit that a parser reads", async () => {
    const cwd = folder();
    await rivulet(["eval", join("evals", "capitals.eval.ts"), "--junit", "report.xml"], { cwd });
    const program = `import json, xml.etree.ElementTree as tree
root = tree.parse("report.xml").getroot()
print(json.dumps([[s.attrib | {"time": ""}, [[t.attrib["name"], [c.tag for c in t]] for t in s]] for s in root]))`;
    const python = spawn("python3", ["-c", program], { cwd, stdio: ["ignore", "pipe", "inherit"] });
    const suite = { tests: "2", skipped: "0", time: "" };
    expect(JSON.parse(await text(python.stdout))).toEqual([
      [
        { ...suite, name: "capitals / steady", failures: "1", errors: "0" },
        [
          ["France", []],
          ['Italy "<&>"', ["failure"]],
        ],
      ],
      [
        { ...suite, name: "capitals / shaky", failures: "0", errors: "1" },
        [
          ["France", []],
          ['Italy "<&>"', ["error"]],
        ],
      ],
    ]);
  });

  it("exits with 0, with 1 below the threshold, and with 2 for wrong use", async () => {
    const cwd = folder();
    const file = join(cwd, "evals", "capitals.eval.ts");
    writeFileSync(file, readFileSync(file, "utf8").replace("shaky: agent(true)", ""));
    const code = async (...flags: string[]) => (await rivulet(["eval", ...flags], { cwd })).code;
    expect(await code()).toBe(0);
    expect(await code("--fail-below", "0.75")).toBe(0);
    expect(await code("--fail-below", "0.76")).toBe(1);
    expect(await code("--fail-below", "high")).toBe(2);
    expect(await code("--concurrency", "0")).toBe(2);
    expect(await code("rivers")).toBe(2);
    writeFileSync(join(cwd, "evals", "broken.eval.ts"), "nonsense(");
    expect(await code()).toBe(2);
    const empty = await rivulet(["eval"], { cwd: mkdtempSync(join(directory, "e")) });
    expect(empty).toMatchObject({ code: 2, errors: expect.stringContaining("has no evals") });
  });
});
