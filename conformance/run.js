// Tests an implementation of the task stream protocol in any language, over its stdin and stdout:
//   node run.js [--levels tree,document,linter] [--only <part of a name>] [--list] -- <command> [arguments…]
import { spawn } from "node:child_process";
import { parseArgs } from "node:util";
import { readVectors } from "./vectors.js";

/** @typedef {import("./vectors.js").Vector} Vector */
/** @typedef {import("./vectors.js").Expected} Expected */

const usage =
  "Usage: node run.js [--levels tree,document,linter] [--only <part of a name>] [--list] -- <command> [arguments…]";
/** @type {Readonly<Record<string, keyof Expected>>} */
const fieldOf = { tree: "tree", document: "document", linter: "problems" };
const replyTimeoutMs = 20_000;

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`${message}\n${usage}`);
  process.exit(2);
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      options: {
        levels: { type: "string", default: Object.keys(fieldOf).join(",") },
        only: { type: "string", default: "" },
        list: { type: "boolean", default: false },
      },
      allowPositionals: true,
    });
    return { ...values, levels: values.levels.split(","), command: positionals };
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

/**
 * The place and the two values of the first difference, or undefined.
 * @param {unknown} expected
 * @param {unknown} actual
 * @param {string} path
 * @returns {{ path: string, expected: unknown, actual: unknown } | undefined}
 */
function difference(expected, actual, path) {
  if (Object.is(expected, actual) || (expected === 0 && actual === 0)) return undefined;
  const isContainer = typeof expected === "object" && expected !== null;
  const isSameKind =
    typeof actual === "object" &&
    actual !== null &&
    Array.isArray(expected) === Array.isArray(actual);
  if (!isContainer || !isSameKind) return { path, expected, actual };
  const left = new Map(Object.entries(expected));
  const right = new Map(Object.entries(actual));
  for (const key of new Set([...left.keys(), ...right.keys()])) {
    const place = Array.isArray(expected)
      ? `${path}[${key}]`
      : `${path}${/^[a-z_]\w*$/i.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`}`;
    const found = difference(left.get(key), right.get(key), place);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * The value without differences that do not count: the order of gaps, and the order and the messages of problems.
 * @param {string} level
 * @param {unknown} value
 */
function comparable(level, value) {
  if (level === "linter" && Array.isArray(value)) {
    const problems = value.map((problem) => [problem?.index, problem?.rule]);
    return problems.sort(([a, x], [b, y]) => a - b || String(x).localeCompare(String(y)));
  }
  const tree = /** @type {{ gaps?: { taskId: string }[] } | null | undefined} */ (value);
  if (level !== "tree" || !Array.isArray(tree?.gaps)) return value;
  return { ...tree, gaps: tree.gaps.toSorted((a, b) => (a?.taskId < b?.taskId ? -1 : 1)) };
}

/** @param {unknown} value */
function show(value) {
  const text = value === undefined ? "(absent)" : JSON.stringify(value);
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

/**
 * JSON in ASCII, because some languages end a line at U+2028 as well.
 * @param {unknown} value
 */
function toAscii(value) {
  const escaped = (/** @type {string} */ unit) =>
    `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(/[^ -~]/g, escaped);
}

/**
 * The lines of a text, which end with LF and nothing else.
 * @param {AsyncIterable<string>} chunks
 */
async function* linesOf(chunks) {
  let rest = "";
  for await (const chunk of chunks) {
    const [first = "", ...more] = chunk.split("\n");
    rest += first;
    for (const line of more) {
      yield rest;
      rest = line;
    }
  }
}

/**
 * Starts the implementation; `ask` sends a line and resolves with the next line, or rejects.
 * @param {readonly string[]} command
 */
function start([program = "", ...args]) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const lines = linesOf(child.stdout.setEncoding("utf8"));
  const ended = new Promise((_, reject) => {
    child.once("error", (error) =>
      reject(new Error(`the command did not start: ${error.message}`)),
    );
    child.once("exit", (code, signal) => {
      reject(new Error(`the command ended with ${signal ?? `exit code ${code}`}`));
    });
  });
  ended.catch(() => {}); // a later vector may be the first to look
  child.stdin.on("error", () => {});
  return {
    /** @param {unknown} request */
    async ask(request) {
      child.stdin.write(`${toAscii(request)}\n`);
      /** @type {NodeJS.Timeout | undefined} */
      let timer;
      const late = new Promise((_, reject) => {
        const message = `no line after ${replyTimeoutMs / 1000} s`;
        timer = setTimeout(() => reject(new Error(message)), replyTimeoutMs);
      });
      try {
        const line = await Promise.race([lines.next(), late]);
        if (line.done) return await ended;
        return JSON.parse(line.value);
      } finally {
        clearTimeout(timer);
      }
    },
    stop: () => child.kill(),
  };
}

/**
 * The problems of one reply, one line each.
 * @param {Vector} vector
 * @param {any} reply
 * @param {readonly string[]} levels
 */
function problemsOf(vector, reply, levels) {
  if (typeof reply !== "object" || reply === null) return [`the reply is ${show(reply)}`];
  if (reply.error !== undefined) return [`the implementation reports: ${show(reply.error)}`];
  if (reply.name !== vector.name) return [`the reply is for ${show(reply.name)}`];
  return levels.flatMap((level) => {
    const field = /** @type {keyof Expected} */ (fieldOf[level]);
    const expected = comparable(level, vector.expect[field]);
    const found = difference(expected, comparable(level, reply[field]), field);
    if (found === undefined) return [];
    return [
      `${level} differs at ${found.path}\n      expected ${show(found.expected)}\n      got      ${show(found.actual)}`,
    ];
  });
}

async function main() {
  const { levels, only, list, command } = readArguments();
  const unknown = levels.find((level) => fieldOf[level] === undefined);
  if (unknown !== undefined) fail(`--levels has no level ${unknown}.`);
  const vectors = readVectors().filter(({ name }) => name.includes(only));
  if (vectors.length === 0) fail(`No vector has ${only} in its name.`);
  if (list) {
    for (const { name, about } of vectors) console.log(`${name}: ${about}`);
    return;
  }
  if (command.length === 0) fail("The command of the implementation is missing.");
  const implementation = start(command);
  let failed = 0;
  for (const vector of vectors) {
    const { expect, ...request } = vector;
    let problems;
    let isLost = false;
    try {
      problems = problemsOf(vector, await implementation.ask(request), levels);
    } catch (error) {
      problems = [error instanceof Error ? error.message : String(error)];
      isLost = !(error instanceof SyntaxError);
    }
    console.log(`${problems.length === 0 ? "✓" : "✗"} ${vector.name}`);
    if (problems.length === 0) continue;
    failed++;
    console.log(`    ${vector.about}`);
    for (const problem of problems) console.log(`    ${problem}`);
    if (isLost) {
      failed += vectors.length - vectors.indexOf(vector) - 1;
      break;
    }
  }
  implementation.stop();
  const passed = vectors.length - failed;
  console.log(`\n${passed} of ${vectors.length} vectors pass (${levels.join(", ")}).`);
  if (failed > 0) process.exitCode = 1;
}

await main();
