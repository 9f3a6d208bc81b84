import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import { addProvider, resolveModel } from "../../src/agent/model/resolve.ts";
import { demoModel } from "./demo.ts";
import { demoProvider } from "./provider.ts";

const model = demoModel("analyst", { clock: { sleep: async () => {} } });

type Files = Readonly<Record<string, string>>;
type Input = Readonly<Record<string, string | undefined>>;
interface Desk {
  readonly system?: string;
  readonly files?: Files;
  readonly tools: Readonly<Record<string, (input: Input, desk: Desk) => string | Promise<string>>>;
  /** A result that starts with this text is an error. */
  readonly refused?: string;
}
interface Made {
  readonly name: string;
  readonly input: Input;
}

const files: Files = {
  "library/bridges.md":
    "# Bridges\n\nA bridge crosses a river or a road.\nStone bridges last because stone does not rust.\n",
  "library/towers.md":
    "# Towers\n\nA tower is higher than it is wide.\nThe tower of the town is 40 metres high and\nwas built in 1910.\n",
};
const fileTools: Desk["tools"] = {
  grep_files: ({ pattern = "", literal }, { files = {} }) => {
    const escaped = literal ? pattern.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") : pattern;
    const lines = Object.entries(files).flatMap(([path, text]) =>
      text
        .split("\n")
        .flatMap((line, index) =>
          new RegExp(escaped, "i").test(line) ? [`${path}:${index + 1}: ${line}`] : [],
        ),
    );
    return lines.join("\n") || "(no matches)";
  },
  read_file: ({ path = "" }, { files = {} }) =>
    (files[path] ?? "")
      .trimEnd()
      .split("\n")
      .map((line, index) => `${String(index + 1).padStart(6)}\t${line}`)
      .join("\n"),
};

function definitions(desk: Desk): LanguageModelV4CallOptions["tools"] {
  return Object.keys(desk.tools).map((name) => ({
    type: "function",
    name,
    description: `What ${name.replaceAll("_", " ")} does.`,
    inputSchema: {
      type: "object",
      properties: { title: { type: "string" }, text: { type: "string" } },
    },
  }));
}

function opening(question: string, system = ""): LanguageModelV4Prompt {
  return [
    { role: "system", content: system },
    { role: "user", content: [{ type: "text", text: question }] },
  ];
}

/** Runs the model with the tools of a desk until it answers; numbers every result. `say` may add a user message. */
async function work(question: string, desk: Desk, say: () => string | undefined = () => undefined) {
  const prompt = [...opening(question, desk.system)];
  const calls: Made[] = [];
  const pool = { next: 1 };
  for (let turn = 0; turn < 12; turn++) {
    const { content } = await model.doGenerate({ prompt, tools: definitions(desk) });
    const made = content.flatMap((part) => (part.type === "tool-call" ? [part] : []));
    const text = content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
    if (made.length === 0) return { text, calls, prompt };
    const results: Extract<LanguageModelV4Message, { role: "tool" }>["content"] = [];
    for (const { toolCallId, toolName, input } of made) {
      const parsed = JSON.parse(input) as Input;
      calls.push({ name: toolName, input: parsed });
      const value = (await desk.tools[toolName]?.(parsed, desk)) ?? "unknown tool";
      const isRefused = desk.refused !== undefined && value.startsWith(desk.refused);
      results.push({
        type: "tool-result",
        toolCallId,
        toolName,
        output: isRefused
          ? { type: "error-text", value }
          : { type: "text", value: numbered(value, pool) },
      });
    }
    prompt.push({
      role: "assistant",
      content: made.map((call) => ({ ...call, input: JSON.parse(call.input) as object })),
    });
    prompt.push({ role: "tool", content: results });
    const said = say();
    if (said !== undefined) prompt.push({ role: "user", content: [{ type: "text", text: said }] });
  }
  throw new Error("The model did not finish.");
}

/** Frames a result as the reference pool does, and renumbers the frames in a child's report. */
function numbered(value: string, pool: { next: number }): string {
  if (!value.startsWith("agent_key")) {
    return `<referencable-item>\nID: ${pool.next++}\n${value}\n</referencable-item>`;
  }
  const renumbered = new Map<string, number>();
  return value.replace(/(ID: |\[\^)(\d+)/g, (_, before: string, id: string) => {
    if (!renumbered.has(id)) renumbered.set(id, pool.next++);
    return `${before}${renumbered.get(id)}`;
  });
}

const researcher: Desk = {
  system: "The articles are in `library/`.",
  files,
  tools: fileTools,
};

function resultsIn(prompt: LanguageModelV4Prompt): readonly string[] {
  return prompt.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) =>
          part.type === "tool-result" && part.output.type === "text" ? [part.output.value] : [],
        )
      : [],
  );
}

/** A lead whose children are the same model with desks of their own. */
function team(more: Partial<Desk> & { readonly members?: string } = {}): Desk {
  const members =
    more.members ??
    "- researcher: Searches the articles.\n- critic: Checks claims.\n- writer: Writes from notes.";
  return {
    files,
    ...more,
    system: `Publish with publish_report.\n\n## Subagents\n\n${members}\n\n## More\n\n- not: an agent`,
    tools: {
      agent_spawn: async ({ agent_id, task = "" }, desk) => {
        const tools = agent_id === "writer" ? {} : fileTools;
        const child = await work(task, { ...researcher, files: desk.files ?? {}, tools });
        const pool = resultsIn(child.prompt)
          .flatMap(
            (result) => result.match(/<referencable-item>[\s\S]*?<\/referencable-item>/g) ?? [],
          )
          .filter((frame) => child.text.includes(`[^${/ID: (\d+)/.exec(frame)?.[1]}]`));
        return [
          "agent_key: k",
          `agent_id: ${agent_id}`,
          "status: ok",
          "reply:",
          ...pool,
          child.text,
        ].join("\n");
      },
      ...more.tools,
    },
  };
}

/** Returns the statements of a text with the result that each one cites. */
function cited(text: string, prompt: LanguageModelV4Prompt) {
  const results = new Map(
    resultsIn(prompt).flatMap((result) =>
      Array.from(
        result.matchAll(/ID: (\d+)\n([\s\S]*?)<\/referencable-item>/g),
        ([, id = "", content = ""]) => [id, content] as const,
      ),
    ),
  );
  return Array.from(text.matchAll(/([^.\n]*\.)\[\^(\d+)\]/g), ([, statement = "", id = ""]) => ({
    statement: statement.replace(/^[- ]+/, ""),
    source: results.get(id),
  }));
}

/** Works like `work`, with a message of the user after the first results. */
async function steered(asked: string, message: string, desk = team()) {
  let isSent = false;
  return work(asked, desk, () => {
    if (isSent) return undefined;
    isSent = true;
    return message;
  });
}

describe("a researcher", () => {
  it("searches, reads the best files and cites the sentences that answer, with their lines", async () => {
    const { text, calls, prompt } = await work("How high is the tower of the town?", researcher);
    expect(calls.map(({ name }) => name)).toEqual(["grep_files", "read_file"]);
    expect(calls[0]?.input).toMatchObject({ path: "library" });
    expect(calls[1]?.input).toEqual({ path: "library/towers.md" });
    // The sentence spans two lines; the place is the line where it starts.
    expect(text).toContain(
      "- The tower of the town is 40 metres high and was built in 1910.[^2] (library/towers.md:4)",
    );
    for (const { source } of cited(text, prompt)) expect(source).toContain("40 metres");
  });

  it("answers from the current content of the files", async () => {
    const changed = {
      ...files,
      "library/towers.md": files["library/towers.md"]?.replace("40 metres", "55 metres") ?? "",
    };
    const { text } = await work("How high is the tower of the town?", {
      ...researcher,
      files: changed,
    });
    expect(text).toContain("55 metres");
    expect(text).not.toContain("40 metres");
  });

  it("searches for no common words, in the possessive neither", async () => {
    const { calls } = await work("What is the world's tower?", researcher);
    expect(calls[0]?.input.pattern).toBe("^# |\\b(?:tower)");
  });

  it("reads the file that is about the subject before files with the other words", async () => {
    const subject = {
      "library/bridges.md":
        "# Bridges\n\nA bridge crosses water.\nA bridge is checked each year.\n",
      "library/towns.md": "# Towns\n\nRoads change how a town grows.\nTraffic has its hours.\n",
      "library/roads.md": "# Roads\n\nTraffic can change every hour.\n",
    };
    const { calls } = await work("How do bridges change traffic?", {
      ...researcher,
      files: subject,
    });
    expect(calls[1]?.input).toEqual({ path: "library/bridges.md" });
  });

  it("reports that the files have no answer, and cites nothing", async () => {
    const { text } = await work("Who painted the Mona Lisa?", researcher);
    expect(text).toBe(
      "The library has nothing that answers “Who painted the Mona Lisa?” No article mentions “painted”, “Mona” or “Lisa”.",
    );
    const half = await work("How high is the tower of Pisa?", researcher);
    expect(half.text).toBe(
      "The library has nothing that answers “How high is the tower of Pisa?” No article mentions “Pisa”.",
    );
  });

  it("corrects a misspelled title, and takes no other word for it", async () => {
    const { text } = await work("How high is the towwer of the town?", researcher);
    expect(text).toContain("40 metres high");
    const trees = { ...files, "library/trees.md": "# Trees\n\nThe tower is a plant.\n" };
    const other = await work("Which tower is a planet?", { ...researcher, files: trees });
    expect(other.text).toBe(
      "The library has nothing that answers “Which tower is a planet?” No article mentions “planet”.",
    );
  });

  it("looks up synonyms in the file that its instructions name", async () => {
    const desk: Desk = {
      ...researcher,
      system: `${researcher.system} Look up other words in \`synonyms.md\`.`,
      tools: {
        ...fileTools,
        grep_files: (input, desk) =>
          input.path === "synonyms.md"
            ? "synonyms.md:3: - spire steeple tower"
            : (fileTools.grep_files?.(input, desk) ?? ""),
      },
    };
    const { text, calls } = await work("How high is the steeple of the town?", desk);
    expect(calls[0]?.input.path).toBe("synonyms.md");
    expect(text).toContain("40 metres high");
    expect((await work("How high is the steeple?", researcher)).text).toContain(
      "has nothing that answers",
    );
  });

  it("does not answer with a figure of something else", async () => {
    const { text } = await work("How deep is the tower of the town?", researcher);
    expect(text).toBe("The library has nothing that answers “How deep is the tower of the town?”");
  });

  it("does not claim that the files lack an answer when the search timed out", async () => {
    const slow = {
      ...researcher,
      tools: { ...fileTools, grep_files: () => "[the search timed out]" },
    };
    expect((await work("Which towers?", slow)).text).toBe(
      "The search timed out before it found anything.",
    );
  });

  it("reports a failed search, and a question without search terms", async () => {
    const failing = { ...researcher, tools: { ...fileTools, grep_files: () => "no: x" } };
    expect((await work("Which towers?", { ...failing, refused: "no:" })).text).toBe(
      "The search failed: no: x",
    );
    expect((await work("What is it?", researcher)).text).toContain("no words to look for");
  });

  it("adds, replaces, leaves out and shortens as a message asks while it works", async () => {
    const question = "How high is the tower?";
    const more = await steered(question, "Also tell me about stone bridges.", researcher);
    expect(more.text).toContain("40 metres high");
    expect(more.text).toContain("stone does not rust.[^");
    const other = await steered(question, "Why do stone bridges last, instead?", researcher);
    expect(other.text).toContain("1 finding in library/bridges.md");
    const both = "What do the files say about towers?";
    expect((await work(both, researcher)).text).toContain("2 findings");
    const without = await steered(both, "Leave out the town, please.", researcher);
    expect(without.text).toContain("higher than it is wide.");
    expect(without.text).not.toContain("town");
    expect((await steered(both, "Keep it short.", researcher)).text).toContain("1 finding in");
    const none = await steered(question, "Leave out the tower.", researcher);
    expect(none.text).toBe("With these changes nothing is left of the findings.");
    const refused = await steered(question, "Why do volcanoes smoke, instead?", researcher);
    expect(refused.text).toBe(
      "The library has nothing that answers “Why do volcanoes smoke?” No article mentions “volcanoes” or “smoke”.",
    );
    const ignored = await steered(question, "Hurry up!", researcher);
    expect(ignored.text).toMatch(/40 metres[\s\S]*\nI could not act on this message: Hurry up!$/);
  });

  it.each([
    ["Who painted the tower?", "The tower belongs to Ann Lee.", "Ann Lee painted the tower."],
    ["How do towers make shade?", "A tower stands in shade.", "A tower makes long shade."],
    [
      "How can masons keep stones from falling?",
      "To prevent this, masons fasten what falls.",
      "Masons keep stones in place with lead, so none are falling.",
    ],
    ["What do towers hold?", "A tower is a house and looks old.", "Towers hold bells."],
    ["How do towers sway?", "A tower is a tall house.", "A tower sways with the wind."],
  ])("answers “%s” not with “%s” but with “%s”", async (question, wrong, right) => {
    const desk = (...lines: readonly string[]) => ({
      ...researcher,
      files: { ...files, "library/towers.md": ["# Towers", "", ...lines, ""].join("\n") },
    });
    expect((await work(question, desk(wrong))).text).toContain("has nothing that answers");
    const { text } = await work(question, desk(wrong, "", right));
    expect(text).toContain(right);
    expect(text).not.toContain(wrong);
  });

  it("names places without numbers when the results have no numbers", async () => {
    const prompt = opening("How high is the tower?", researcher.system);
    const said = (
      name: string,
      id: string,
      input: object,
      value: string,
    ): LanguageModelV4Prompt => [
      {
        role: "assistant",
        content: [{ type: "tool-call", toolCallId: id, toolName: name, input }],
      },
      {
        role: "tool",
        content: [
          { type: "tool-result", toolCallId: id, toolName: name, output: { type: "text", value } },
        ],
      },
    ];
    const path = "library/towers.md";
    const { content } = await model.doGenerate({
      prompt: [
        ...prompt,
        ...said(
          "grep_files",
          "1",
          { pattern: "^# |\\b(?:tower)", path: "library" },
          `${path}:4: The tower is 40 metres high.`,
        ),
        ...said("read_file", "2", { path }, "     4\tThe tower is 40 metres high."),
      ],
      tools: definitions(researcher),
    });
    expect(content).toMatchObject([
      { type: "text", text: expect.stringContaining(`- The tower is 40 metres high. (${path}:4)`) },
    ]);
  });
});

describe("a researcher with a critic", () => {
  const checking = (report: string) => ({
    ...researcher,
    system: `${researcher.system}\n\n## Subagents\n\n- general-purpose: An agent like you.\n- critic: Checks claims.`,
    tools: { ...fileTools, agent_spawn: () => `agent_key: k\nstatus: ok\nreply:\n${report}` },
  });

  it("reports what the critic confirms, and nothing else", async () => {
    const claim = "Stone bridges last because stone does not rust.";
    const question = "Why do stone bridges last?";
    const good = await work(question, checking(`- supported: ${claim} (library/bridges.md:4)`));
    expect(good.calls.at(-1)).toMatchObject({ name: "agent_spawn", input: { agent_id: "critic" } });
    expect(good.text).toContain("1 finding in library/bridges.md, checked by critic:");
    expect(good.text).toContain(`- ${claim}`);
    const bad = await work(question, checking(`- not found: ${claim}`));
    expect(bad.text).toBe(
      `The library has nothing that answers “${question}” The check did not confirm the findings.`,
    );
  });
});

it("finds words that answer for those of the question", async () => {
  const { text } = await work("What makes a tower tall?", researcher);
  expect(text).toContain("40 metres high");
});

describe("a critic", () => {
  it("confirms claims that are in the files word for word and names the others", async () => {
    const task = [
      "Check these claims.",
      "- Stone bridges last because stone does not rust.",
      "- The tower of the town is 40 metres high and was built in 1910.",
      "- Stone bridges last for ever.",
    ];
    const { text } = await work(task.join("\n"), researcher);
    expect(text.split("\n")).toEqual([
      "2 of 3 claims are in the files.",
      "- supported: Stone bridges last because stone does not rust.[^1] (library/bridges.md:4)",
      "- supported: The tower of the town is 40 metres high and was built in 1910.[^2] (library/towers.md:4)",
      "- not found: Stone bridges last for ever.",
    ]);
  });
});

describe("a writer", () => {
  it("writes a paragraph for each part, the main point first, and repeats nothing", async () => {
    const task = [
      "Write the answer to: How high is the tower, and why do bridges last?",
      "Notes on: How high is the tower?",
      "- It was built in 1910.",
      "- The tower is 40 metres high.",
      "",
      "Notes on: Why do bridges last?",
      "- Bridges last because stone does not rust.",
      "- The tower is 40 metres high.",
    ];
    const { text } = await work(task.join("\n"), { tools: {} });
    expect(text).toBe(
      "The tower is 40 metres high. It was built in 1910.\n\nBridges last because stone does not rust.",
    );
  });
});

it("lists files with their titles as a cataloguer, and reads them if it can", async () => {
  const { text } = await work("Make a catalogue of `library/`.", researcher);
  expect(text).toBe(
    [
      "There are 2 files with a title in library/.",
      "- Bridges. A bridge crosses a river or a road.[^2] (library/bridges.md:3)",
      "- Towers. A tower is higher than it is wide.[^3] (library/towers.md:3)",
    ].join("\n"),
  );
  const titles = await work("Make a catalogue of `library/`.", {
    ...researcher,
    tools: { grep_files: () => "library/towers.md:1: # Towers" },
  });
  expect(titles.text).toContain("- Towers. (library/towers.md)");
});

describe("small talk", () => {
  it.each([
    "Hi",
    "hello there!",
    "Good morning, Ann.",
    "Thanks a lot :)",
    "How are you?",
    "OK",
    "What can you do?",
    "bye",
  ])("answers %j shortly and calls no tool", async (question) => {
    const { text, calls } = await work(question, team());
    expect(calls).toEqual([]);
    expect(text.length).toBeGreaterThan(5);
    expect(text.length).toBeLessThan(160);
  });

  it.each(["Hello, why do stone bridges last?", "Thanks. How high is the tower?"])(
    "does not take %j for it",
    async (question) => {
      expect((await work(question, team())).calls.length).toBeGreaterThan(2);
    },
  );
});

it("asks for English", async () => {
  for (const question of ["Warum ist der Turm so hoch?", "なぜ川は曲がるのですか"]) {
    const { text, calls } = await work(question, team());
    expect(text).toContain("Please ask in English.");
    expect(calls).toEqual([]);
  }
});

describe("a lead", () => {
  const question = "How high is the tower of the town, and why do stone bridges last?";
  const spawns = (calls: readonly Made[]) =>
    calls.filter(({ name }) => name === "agent_spawn").map(({ input }) => input.agent_id);

  it("delegates parts in parallel, then the check and the writing, and cites its team's findings", async () => {
    const { text, calls, prompt } = await work(question, team());
    expect(spawns(calls)).toEqual(["researcher", "researcher", "critic", "writer"]);
    expect(calls.slice(0, 2).map(({ input }) => input.task)).toEqual([
      "How high is the tower of the town?",
      "Why do stone bridges last?",
    ]);
    expect(prompt[2]).toMatchObject({ role: "assistant", content: { length: 2 } });
    const statements = cited(text, prompt);
    expect(statements.map(({ statement }) => statement)).toEqual(
      expect.arrayContaining([
        "The tower of the town is 40 metres high and was built in 1910.",
        "Stone bridges last because stone does not rust.",
      ]),
    );
    const bare = (found = "") => found.replace(/^ *\d+\t/gm, "").replace(/\s+/g, " ");
    for (const { statement, source } of statements) expect(bare(source)).toContain(statement);
    // Every sentence has a source.
    expect(text.match(/\.(?!\[\^)/g)).toBeNull();
  });

  it("drops claims that the critic does not find", async () => {
    const forgetful = team({
      tools: {
        agent_spawn: async (input, desk) => {
          const real = await team().tools.agent_spawn?.(input, desk);
          if (input.agent_id !== "critic") return real ?? "";
          return "agent_key: k\nstatus: ok\nreply:\n- not found: Stone bridges last because stone does not rust.";
        },
      },
    });
    const { text } = await work(question, forgetful);
    expect(text).toContain("40 metres");
    expect(text).not.toContain("rust");
    const nothing = await work("Why do stone bridges not rust?", forgetful);
    expect(nothing.text).toBe(
      "I found no answer to this, so I give none. The check did not confirm the findings.",
    );
  });

  it("answers without numbers when the results have none", async () => {
    const plain = team({
      tools: {
        agent_spawn: async (input, desk) => {
          const real = String(await team().tools.agent_spawn?.(input, desk));
          return real.replace(/<ref[\s\S]*?<\/referencable-item>\n|\[\^\d+\]/g, "");
        },
      },
    });
    const { text } = await work(question, plain);
    expect(text).toContain("Stone bridges last because stone does not rust.");
    expect(text).not.toContain("[^");
  });

  it("reports a researcher's failure", async () => {
    const failing = team({
      refused: "agent",
      tools: { agent_spawn: () => "agent_key: k\nstatus: error\nerror: no model" },
    });
    expect((await work(question, failing)).text).toContain("error: no model");
  });

  it("splits a single question, works without critic and writer, and names a part without an answer", async () => {
    const alone = team({ members: "- researcher: Searches." });
    const { calls } = await work("Why do stone bridges last?", alone);
    expect(spawns(calls)).toEqual(["researcher", "researcher"]);
    const half = await work("Why do stone bridges last? Who was Leonardo da Vinci?", alone);
    expect(half.text).toContain("stone does not rust.[^");
    expect(half.text).toContain("I found no answer to this part: Who was Leonardo da Vinci?");
  });

  it("reports that no researcher found an answer, and cites nothing", async () => {
    const { text, calls } = await work("Who painted the Mona Lisa?", team());
    expect(text).toBe(
      "The library has nothing that answers “Who painted the Mona Lisa?” No article mentions “painted”, “Mona” or “Lisa”.",
    );
    expect(text).not.toContain("[^");
    expect(spawns(calls)).toEqual(["researcher", "researcher"]);
  });

  it("publishes with sources if it is asked to, and says when that is denied", async () => {
    const published: Input[] = [];
    const publish = (answer: string) =>
      team({
        refused: "Denied",
        tools: {
          publish_report: (input) => {
            published.push(input);
            return answer;
          },
        },
      });
    const unasked = await work(question, publish("It is in reports/x.md."));
    expect(unasked.text).toContain("stone does not rust.[^");
    expect(published).toEqual([]);
    const wish = `${question} Publish a report.`;
    const done = await work(wish, publish("It is in reports/x.md."));
    expect(done.text).toContain("It is in reports/x.md.");
    expect(published[0]?.title).toBe(question);
    expect(published[0]?.text).toMatch(/rust\. \[\d\][\s\S]*Sources[\s\S]*library\/bridges\.md:4/);
    const denied = await work(wish, publish("Denied: not today."));
    expect(denied.text).toContain("The report is not published: Denied: not today.");
    expect(denied.text).toContain("stone does not rust.[^");
  });

  /** A team whose children report late, each when it is waited for. */
  function slowTeam(waited: Input[], reports: string[] = []): Desk {
    return team({
      members: "- cataloguer: Makes a catalogue, in the background.\n- researcher: Searches.",
      tools: {
        agent_spawn: async (input, desk) => {
          const real = String(await team().tools.agent_spawn?.(input, desk));
          const key = `agent_key: k${reports.length + 1}`;
          reports.push(real.replace("agent_key: k", key));
          const status = input.agent_id === "cataloguer" ? "accepted" : "timeout_promoted";
          return `${key}\nstatus: ${status}\ntask_id: call_${reports.length}`;
        },
        task_wait: (input) => {
          waited.push(input);
          const ids = input.task_ids as unknown as readonly string[];
          return ids.map((id) => reports[Number(id.slice(5)) - 1]).join("\n\n");
        },
      },
    });
  }

  it("waits for the reports that it needs", async () => {
    const waited: Input[] = [];
    const { text, calls } = await work(question, slowTeam(waited));
    expect(waited.map(({ task_ids }) => task_ids)).toEqual([["call_1", "call_2"]]);
    expect(text).toContain("stone does not rust.[^");
    expect(spawns(calls)).not.toContain("cataloguer");
  });

  it.each([
    "What is in this workspace?",
    "What files are there?",
    "Summarise the library.",
    "Which topics do the articles cover?",
    "How many articles are in the library?",
    "What can I ask you about?",
  ])("has the library listed in the background for %j, with citations", async (asked) => {
    const waited: Input[] = [];
    const { text, calls, prompt } = await work(asked, slowTeam(waited));
    expect(spawns(calls)).toEqual(["cataloguer"]);
    expect(calls[0]?.input).toMatchObject({ timeout_seconds: 0 });
    expect(waited).toHaveLength(1);
    expect(text).toContain("- Towers. A tower is higher than it is wide.[^");
    for (const { statement, source } of cited(text, prompt)) expect(source).toContain(statement);
  });

  it("does not list the library for a question about a subject in it", async () => {
    const { calls } = await work("What do the articles say about towers?", slowTeam([]));
    expect(spawns(calls)).toEqual(["researcher", "researcher"]);
  });

  it("says which part is missing because its agent was cancelled", async () => {
    const cancelled = (isCancelled: (task: string) => boolean) =>
      team({
        members: "- researcher: Searches.",
        tools: {
          agent_spawn: async (input, desk) =>
            isCancelled(input.task ?? "")
              ? "agent_key: k\nagent_id: researcher\nstatus: cancelled"
              : String(await team().tools.agent_spawn?.(input, desk)),
        },
      });
    const half = await work(
      question,
      cancelled((task) => task.includes("bridges")),
    );
    expect(half.text).toContain("40 metres");
    expect(half.text).toContain(
      "The search for this part was cancelled, so its answer is missing here: Why do stone bridges last?",
    );
    const plain = await work(
      "How high is the tower?",
      cancelled((task) => task.includes("figures")),
    );
    expect(plain.text).toContain("40 metres");
    expect(plain.text).toContain("The search for figures and examples was cancelled");
    const none = await work(
      "How high is the tower?",
      cancelled(() => true),
    );
    expect(none.text).toMatch(/^The search for this part was cancelled/);
    expect(none.text).not.toContain("[^");
  });

  it("adds what a message asks for while it works", async () => {
    const { text } = await steered("How high is the tower?", "Also tell me about stone bridges.");
    expect(text).toContain("40 metres high");
    expect(text).toContain("stone does not rust.[^");
  });

  it("answers what a message asks instead", async () => {
    const { text } = await steered("How high is the tower?", "Why do stone bridges last, instead?");
    expect(text).toContain("stone does not rust.[^");
    expect(text).not.toContain("40 metres");
  });

  it("says that the library lacks what a message asks for", async () => {
    const { text } = await steered("How high is the tower?", "Also add something about volcanoes.");
    expect(text).toContain("40 metres high");
    expect(text).toContain(
      "I found no answer to this part: What do the files say about volcanoes?",
    );
  });

  it("leaves out, shortens and keeps from publishing as a message asks", async () => {
    const published: Input[] = [];
    const tools = { publish_report: (input: Input) => `In ${published.push(input)}.md.` };
    const wish = `${question} Publish a report.`;
    const without = await steered(question, "Leave out the bridges, please.");
    expect(without.text).toContain("40 metres");
    expect(without.text).not.toContain("rust");
    const brief = await steered("What do the files say about towers?", "Keep it short.");
    expect(brief.text.match(/\[\^/g)).toHaveLength(1);
    const unpublished = await steered(wish, "Don't publish it.", team({ tools }));
    expect(unpublished.text).toContain("The report is not published, as you asked.");
    expect(published).toEqual([]);
    const ignored = await steered(question, "Hurry up!");
    expect(ignored.text).toContain("I could not act on this message: Hurry up!");
  });

  it("changes a denied report as the reason asks, and publishes nothing unchanged again", async () => {
    const published: Input[] = [];
    const denyOnce = (reason: string) =>
      team({
        refused: "Denied",
        tools: {
          publish_report: (input) => {
            published.push(input);
            return published.length === 1 ? `Denied: ${reason}` : "It is in reports/x.md.";
          },
        },
      });
    const wish = `${question} Publish a report.`;
    const retried = async (reason: string) => {
      published.length = 0;
      const { text } = await work(wish, denyOnce(reason));
      return { text, last: published.at(-1), count: published.length };
    };
    const without = await retried("Leave out the bridges.");
    expect(without.count).toBe(2);
    expect(without.last?.text).toContain("40 metres");
    expect(without.last?.text).not.toContain("rust");
    expect(without.text).toContain("It is in reports/x.md.");
    const renamed = await retried('Call it "Towers and bridges".');
    expect(renamed.last?.title).toBe("Towers and bridges");
    const refused = await retried("No user was available to approve this.");
    expect(refused.count).toBe(1);
    expect(refused.text).toContain("The report is not published: Denied: No user was available");
  });

  it.each([
    [
      "Write a report on stone bridges and publish it.",
      "What do the files say about stone bridges?",
    ],
    ["How high is the tower? Publish a report on it.", "How high is the tower?"],
    ["Publish a report about the tower.", "What do the files say about the tower?"],
  ])("researches the subject of %j", async (wish, part) => {
    const { calls } = await work(wish, team());
    expect(calls[0]?.input.task).toBe(part);
  });

  it("gives each subject of a list to a researcher", async () => {
    const { calls } = await work("What do the files say about towers, bridges and stone?", team());
    expect(calls.slice(0, 3).map(({ input }) => input.task)).toEqual([
      "What do the files say about towers?",
      "What do the files say about bridges?",
      "What do the files say about stone?",
    ]);
  });

  /** The first task that the lead gives away for the last of these messages. */
  async function firstTask(...messages: readonly string[]): Promise<string> {
    const [first = "", ...rest] = messages;
    const said = (role: "user" | "assistant", text: string) => ({
      role,
      content: [{ type: "text" as const, text }],
    });
    const isNotice = (text: string) => / task/.test(text);
    const { content } = await model.doGenerate({
      prompt: [
        ...opening(first, team().system),
        ...rest.flatMap((text) =>
          isNotice(text) ? [said("user", text)] : [said("assistant", "Yes."), said("user", text)],
        ),
      ],
      tools: definitions(team()),
    });
    const [call] = content.flatMap((part) => (part.type === "tool-call" ? [part] : []));
    return (JSON.parse(call?.input ?? "{}") as { task: string }).task;
  }

  it("takes the subject of a follow-up from the question before it", async () => {
    const question = "Why do stone bridges last?";
    const expected = "What stops them? This is about stone and bridges.";
    const notices = ["A background task has ended.\ntask_id: t", "What stops them?"];
    expect(
      await firstTask(question, ...notices, "No task of this session is unfinished now."),
    ).toBe(expected);
    expect(await firstTask(question, "Thanks!", "What stops them?")).toBe(expected);
  });

  it.each(["What about towers?", "And towers?", "Tell me more about towers.", "What are towers?"])(
    "does not take %j for a follow-up",
    async (question) => {
      expect(await firstTask("Why do stone bridges last?", question)).not.toContain("stone");
    },
  );

  it('adds the subject to a part that says "they"', async () => {
    const { calls } = await work("How do stone bridges last, and why are they built?", team());
    expect(calls[1]?.input.task).toBe("Why are they built? This is about stone and bridges.");
  });
});

describe("with other tools", () => {
  const weather = {
    tools: { get_weather: ({ city }: Input) => `Sunny in ${city}` },
  };
  const offered: LanguageModelV4CallOptions["tools"] = [
    {
      type: "function",
      name: "get_weather",
      description: "Current weather in a city.",
      inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  ];

  it("calls the tool that fits the question", async () => {
    const prompt = opening("What is the weather in Paris?");
    const { content } = await model.doGenerate({ prompt, tools: offered });
    expect(content).toContainEqual(
      expect.objectContaining({ toolName: "get_weather", input: '{"city":"Paris"}' }),
    );
  });

  it("says what it is when no tool fits or when asked", async () => {
    for (const tools of [[], offered]) {
      const { content } = await model.doGenerate({ prompt: opening("Sing a song."), tools });
      expect(content).toMatchObject([
        { type: "text", text: expect.stringContaining("demo:analyst") },
      ]);
    }
    const { text } = await work("Who are you?", { ...team(), ...weather });
    expect(text).toContain("a small deterministic program");
    const other = await work("What are you told about the tower?", researcher);
    expect(other.text).not.toContain("demo:analyst");
  });

  it("summarizes its findings when no tools are offered any more", async () => {
    const { prompt } = await work("How high is the tower of the town?", {
      ...researcher,
      tools: { ...fileTools },
    });
    const more: LanguageModelV4Prompt = [
      ...prompt,
      { role: "user", content: [{ type: "text", text: "Now respond directly." }] },
    ];
    const { content } = await model.doGenerate({ prompt: more });
    expect(content).toMatchObject([
      { type: "text", text: expect.stringContaining("I had to stop") },
    ]);
  });
});

describe("the stream", () => {
  async function partsOf(stream: ReadableStream<LanguageModelV4StreamPart>) {
    const parts: LanguageModelV4StreamPart[] = [];
    for await (const part of stream) parts.push(part);
    return parts;
  }
  const options = { prompt: opening("How high is the tower?"), tools: definitions(researcher) };

  it("is deterministic and has the content of doGenerate", async () => {
    const [one, other] = await Promise.all(
      [1, 2].map(async () => partsOf((await model.doStream(options)).stream)),
    );
    expect(one).toEqual(other);
    const deltas =
      one?.flatMap((part) => (part.type === "tool-input-delta" ? [part.delta] : [])) ?? [];
    const call = one?.find((part) => part.type === "tool-call");
    expect(deltas.join("")).toBe(call?.input);
    const thought =
      one?.flatMap((part) => (part.type === "reasoning-delta" ? [part.delta] : [])) ?? [];
    expect(thought.length).toBeGreaterThan(3);
    const { content, usage } = await model.doGenerate(options);
    expect(content).toMatchObject([{ type: "reasoning", text: thought.join("") }, call]);
    expect(one?.at(-1)).toMatchObject({ type: "finish", usage });
    expect(usage.inputTokens.total).toBeGreaterThan(5);
    expect(usage.outputTokens.total).toBeGreaterThan(10);
  });

  it("pauses before each delta", async () => {
    const slept: number[] = [];
    const calm = demoModel("analyst", { clock: { sleep: async (ms) => void slept.push(ms) } });
    const parts = await partsOf((await calm.doStream(options)).stream);
    expect(slept.length).toBe(parts.filter((part) => "delta" in part).length);
    expect(Math.min(...slept)).toBeGreaterThan(0);
  });

  it("throws the abort reason before it starts and in a pause", async () => {
    const reason = new Error("enough");
    await expect(
      model.doStream({ ...options, abortSignal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason);
    const controller = new AbortController();
    const stuck = demoModel("analyst", {
      clock: {
        sleep: (_, signal) =>
          new Promise((_resolve, reject) => {
            signal?.addEventListener("abort", () => reject(signal.reason));
            controller.abort(reason);
          }),
      },
    });
    const { stream } = await stuck.doStream({ ...options, abortSignal: controller.signal });
    await expect(partsOf(stream)).rejects.toBe(reason);
  });
});

it("accepts only the model id analyst", async () => {
  addProvider("demo", demoProvider);
  expect(await resolveModel("demo:analyst")).toMatchObject({
    provider: "demo",
    modelId: "analyst",
  });
  await expect(resolveModel("demo:poet")).rejects.toMatchObject({
    code: "invalid_model",
    hint: expect.stringContaining("demo:analyst"),
  });
});
