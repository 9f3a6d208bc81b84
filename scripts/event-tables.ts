import * as grammar from "../src/protocol/grammar/index.ts";
import {
  controlFrames,
  logEvents,
  origin,
  position,
  words,
} from "../src/protocol/grammar/index.ts";
import type { Fields, Shape } from "../src/protocol/shape.ts";
import * as scalar from "../src/protocol/shape.ts";
import { fieldOf, isList, Optional, Variants } from "../src/protocol/shape.ts";
import { definitions, sentences } from "../src/schema/definitions.ts";
import { describeFields } from "./field-descriptions.ts";

// The page docs/protocol/events.md: every frame and every field, from the grammar.

const scalarNames = new Map<Shape, string>([
  [scalar.isId, "id"],
  [scalar.isBlockId, "id"],
  [scalar.isText, "string"],
  [scalar.isName, "string, not empty"],
  [scalar.isIndex, "count"],
  [scalar.isTime, "time"],
  [scalar.isOffset, "offset"],
  [scalar.isLevel, "count from 1"],
  [scalar.isCursor, "cursor"],
  [scalar.isNumber, "number"],
  [scalar.isFlag, "boolean"],
  [scalar.isTrue, "`true`"],
  [scalar.isJson, "JSON object"],
  [scalar.isAny, "any JSON"],
]);
const named = new Map(definitions.map(([shape, name]) => [shape, name]));
const wordLists: Readonly<Record<string, readonly string[]>> = words;

/** The type of a field, with a link to its shape or its list of words. */
function typeOf(shape: Shape): string {
  const simple = scalarNames.get(shape);
  if (simple !== undefined) return simple;
  const name = named.get(shape);
  if (name !== undefined) return linkTo(name);
  if (isList(shape)) return `list of ${typeOf(shape[0])}`;
  if (typeof shape === "string") return wordType(shape);
  if (typeof shape === "object" && !(shape instanceof Variants)) {
    const isTask = "object" in shape;
    return isTask
      ? `${linkTo("Task")} with \`status\` ${typeOf(shape.status as Shape)}`
      : `{ ${listOf(shape)} }`;
  }
  throw new Error(`A shape has no name: ${String(shape)}`);
}

/** A Markdown page numbers equal headings: the shape \`Error\` comes after the frame \`error\`. */
function linkTo(name: string): string {
  const anchor = name.toLowerCase();
  return `[${name}](#${anchor in sentences ? `${anchor}-1` : anchor})`;
}

function wordType(shape: string): string {
  const name = shape.slice(1);
  if (shape.startsWith("~") && name in wordLists) return `[word](#words): ${name}`;
  return name
    .split("|")
    .map((word) => `\`${word}\``)
    .join(" or ");
}

interface FieldRow {
  readonly name: string;
  readonly isRequired: boolean;
  readonly shape: Shape;
}

function rowsOf(fields: Fields): readonly FieldRow[] {
  return Object.entries(fields).map(([name, field]) => ({ name, ...fieldOf(field) }));
}

/** Fields in one line: `name` type, with a question mark where a field is optional. */
function listOf(fields: Fields): string {
  return rowsOf(fields)
    .map(({ name, isRequired, shape }) => `\`${name}${isRequired ? "" : "?"}\` ${typeOf(shape)}`)
    .join(", ");
}

const descriptions = describeFields();

function meaningOf(owner: string, field: string): string {
  const meaning = descriptions.get(owner)?.get(field);
  if (meaning !== undefined) return meaning;
  if (field === "type") return "the type of the object";
  throw new Error(`${owner}.${field} has no comment in src/protocol/grammar`);
}

function fieldTable(owner: string, fields: Fields): string {
  const rows = rowsOf(fields).map(
    ({ name, isRequired, shape }) =>
      `| \`${name}\` | ${typeOf(shape)} | ${isRequired ? "yes" : "no"} | ${meaningOf(owner, name)} |`,
  );
  return ["| field | type | required | meaning |", "|---|---|---|---|", ...rows].join("\n");
}

function frameSection(type: string, fields: Fields): string {
  const sentence = sentences[type as keyof typeof sentences];
  const table = Object.keys(fields).length === 0 ? "" : `\n\n${fieldTable(type, fields)}`;
  return `### \`${type}\`\n\n${sentence}${table}`;
}

function framesOf(frames: Readonly<Record<string, Fields>>): string {
  return Object.entries(frames)
    .map(([type, fields]) => frameSection(type, fields))
    .join("\n\n");
}

function shapeSection([shape, name, sentence]: (typeof definitions)[number]): string[] {
  if (typeof shape === "function") return [];
  const start = `### ${name}\n\n${sentence}\n\n`;
  if (shape instanceof Variants) {
    if (shape.known.length === 1) return [start + fieldTable(name, shape.known[0] as Fields)];
    const known = shape.known.map((fields) =>
      named.has(fields) ? typeOf(fields) : changeOf(fields),
    );
    const other = shape.opaque === undefined ? [] : [typeOf(shape.opaque)];
    return [
      `${start}One of these, by \`type\`:\n\n${[...known, ...other].map((entry) => `- ${entry}`).join("\n")}`,
    ];
  }
  return [start + fieldTable(name, shape as Fields)];
}

/** An item whose fields may be absent, beside the item with the same type. */
function changeOf(fields: Fields): string {
  const [whole] = definitions.filter(([shape]) => (shape as Fields).type === fields.type);
  if (whole === undefined) throw new Error(`No item has the type ${String(fields.type)}`);
  const [shape, name] = whole;
  const required = rowsOf(shape as Fields).filter(({ isRequired }) => isRequired);
  const free = required.map(({ name }) => name).filter((key) => fields[key] instanceof Optional);
  return `${linkTo(name)}, where ${free.map((key) => `\`${key}\``).join(" and ")} may be absent`;
}

const wordTable = [
  "| list | words |",
  "|---|---|",
  ...Object.entries(words).map(
    ([name, list]) => `| ${name} | ${list.map((word) => `\`${word}\``).join(", ")} |`,
  ),
].join("\n");

/** The text of docs/protocol/events.md. */
export const eventTables = `# Events and fields

Look up every frame of a stream and every field of a frame. \`npm run generate:schema\` writes this page from \`src/protocol/grammar\`; do not edit it.

Required means that the field must be present and not null. Null on a field that is not required means that the field is absent. Objects may have other fields, which a reader keeps.

## Types

| type | values |
|---|---|
| id | a string of 1 to 128 UTF-16 code units, except \`__proto__\`; compare it as it is |
| count | a whole number from 0 to 2^53 − 1; \`1.0\` is whole |
| cursor | a count, or −1 for the position before the first event |
| time | milliseconds since 1970-01-01T00:00:00Z, a count |
| offset | an offset in a text in UTF-16 code units, a count |
| number | any number |
| word | one of the [words](#words) of a list; a reader accepts other strings, because a newer version may add some |
| JSON object, any JSON | a value that nests at most 200 levels |

## Log events

These fields are on every log event, besides its own:

| field | type | required | meaning |
|---|---|---|---|
| \`type\` | string | yes | the type of the event; skip unknown types |
${fieldTable("event", { ...position, ...origin })
  .split("\n")
  .slice(2)
  .join("\n")}

${framesOf(logEvents)}

## Frames that a server adds

They are not in the log, and have no fields besides \`type\` and their own.

${framesOf({ "task.snapshot": grammar.snapshot, error: grammar.streamError, ...controlFrames })}

## Shapes

${definitions.flatMap(shapeSection).join("\n\n")}

## Words

${wordTable}
`;
