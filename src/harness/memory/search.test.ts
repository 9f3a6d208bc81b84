import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ftsIndex, type MemoryIndex, openIndex, passagesOf, plainIndex } from "./search.ts";

const text = `# Ann

- Ann lives in Rome.
- Her cat is called Miez and likes
  fish on Fridays.

## Work

Ann works for the railway. She is an engineer.

1. The office is in the Via Appia.
2. 東京に行く予定です。
`;
const passages = passagesOf("MEMORY.md", text);

const indexes: Readonly<Record<string, (from: typeof passages) => MemoryIndex>> = {
  "in SQLite": (from) => ftsIndex(from, new DatabaseSync(":memory:")),
  "without SQLite": plainIndex,
};

it("splits a file into list items and paragraphs, with their lines", () => {
  expect(passages).toEqual([
    { path: "MEMORY.md", line: 3, text: "- Ann lives in Rome." },
    { path: "MEMORY.md", line: 4, text: "- Her cat is called Miez and likes\n  fish on Fridays." },
    { path: "MEMORY.md", line: 9, text: "Ann works for the railway. She is an engineer." },
    { path: "MEMORY.md", line: 11, text: "1. The office is in the Via Appia." },
    { path: "MEMORY.md", line: 12, text: "2. 東京に行く予定です。" },
  ]);
});

describe.each(Object.entries(indexes))("an index %s", (_, open) => {
  const lines = (query: string, limit = 10) =>
    open(passages)
      .search(query, limit)
      .map(({ line }) => line);

  it("ranks rare words first", () => {
    expect(lines("the cat")).toEqual([4, 11, 9]);
    expect(lines("Ann Rome")[0]).toBe(3);
    expect(lines("Ann Rome", 1)).toHaveLength(1);
  });

  it("finds the beginning of a word, any case, accents and scripts without spaces", () => {
    expect(lines("engin")).toEqual([9]);
    expect(lines("RÓME")).toEqual([3]);
    expect(lines("fridays")).toEqual([4]);
    expect(lines("東京")).toEqual([12]);
    expect(lines("li")).toEqual([]); // too short for a beginning
  });

  it("takes any query", () => {
    for (const query of ["", " ", "AND OR NOT", '"', "a*b:(c)", "NEAR(a b)", "-", "\0", "☃", "'--"])
      expect(Array.isArray(lines(query))).toBe(true);
    expect(open([]).search("Ann", 5)).toEqual([]);
  });
});

it("ranks the same with and without SQLite", () => {
  const word = fc.constantFrom("ann", "rome", "cat", "fish", "road", "roads", "via", "appia");
  const line = fc.array(word, { minLength: 1, maxLength: 12 }).map((words) => words.join(" "));
  fc.assert(
    fc.property(fc.array(line, { maxLength: 30 }), line, (texts, query) => {
      const from = texts.map((text, line) => ({ path: "MEMORY.md", line, text }));
      const [fts, plain] = Object.values(indexes).map((open) => open(from).search(query, 30));
      expect(plain).toEqual(fts);
    }),
    { numRuns: 200 },
  );
});

it("opens an index", async () => {
  const index = await openIndex(passages);
  expect(index.search("cat", 1)[0]?.line).toBe(4);
});
