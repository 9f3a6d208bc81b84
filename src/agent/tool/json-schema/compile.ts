import { isObject } from "../../../base/plain.ts";
import { check, type Json, maxDepth, type Node, type Rule, report, typeOf } from "./check.ts";
import { type Compile, type Draft, keywords, lastKeywords } from "./keywords.ts";

/** A larger schema is refused. */
const maxNodes = 10_000;

/** Compiles a JSON Schema to a function that lists the problems of a value; throws when its work cannot be bounded. */
export function compileJsonSchema(document: Json) {
  const root = new Compiler(document).compileRoot();
  return (value: unknown) => check(root, value);
}

/** References whose target depends on the way to them. */
const refusedKeywords = ["$dynamicRef", "$recursiveRef"];

class Compiler implements Compile {
  readonly #document: Json;
  readonly draft: Draft;
  readonly #nodes = new Map<object, Node>();
  readonly #resources = new Map<string, Json>();
  /** The schema with an id that each schema is in, against which references are resolved. */
  readonly #bases = new Map<object, Json>();

  constructor(document: Json) {
    this.#document = document;
    const dialect = String(document.$schema ?? "");
    this.draft = dialect.includes("draft-04")
      ? 4
      : /draft-0[67]/.test(dialect)
        ? 7
        : dialect.includes("2019-09")
          ? 2019
          : 2020;
  }

  compileRoot(): Node {
    this.#register(this.#document, this.#document, 0);
    return this.compile(this.#document);
  }

  /** Finds ids and anchors before any reference is resolved. */
  #register(value: unknown, base: Json, depth: number): void {
    if (depth > 2 * maxDepth) throw new Error("the schema is nested too deeply");
    if (Array.isArray(value)) {
      for (const entry of value) this.#register(entry, base, depth + 1);
      return;
    }
    if (!isObject(value)) return;
    const id = this.draft === 4 ? value.id : value.$id;
    const own = typeof id === "string" && id !== "" && !id.startsWith("#") ? value : base;
    this.#bases.set(value, own);
    if (own === value) this.#name(String(id).replace(/#$/, ""), value);
    const anchor =
      value.$anchor ?? (typeof id === "string" && id.startsWith("#") ? id.slice(1) : undefined);
    if (typeof anchor === "string") this.#name(`${nameOf(own)}#${anchor}`, value);
    for (const inner of Object.values(value)) this.#register(inner, own, depth + 1);
  }

  #name(name: string, schema: Json): void {
    if (this.#resources.has(name)) throw new Error(`two schemas have the id "${name}"`);
    this.#resources.set(name, schema);
  }

  compile(schema: unknown): Node {
    if (schema === true || schema === false) {
      const refuse: Rule = (_, at, run) => report(run, at, "No value is allowed.");
      return { rules: schema ? [] : [refuse], lastRules: [] };
    }
    if (!isObject(schema)) throw new Error(`a schema must be an object, got ${typeOf(schema)}`);
    const known = this.#nodes.get(schema);
    if (known) return known;
    if (this.#nodes.size >= maxNodes) throw new Error(`the schema has more than ${maxNodes} parts`);
    const node: Node = { rules: [], lastRules: [] };
    this.#nodes.set(schema, node);
    const refused = refusedKeywords.find((name) => name in schema);
    if (refused) throw new Error(`"${refused}" cannot be checked in bounded time; use "$ref"`);
    const isOnlyRef = this.draft <= 7 && typeof schema.$ref === "string";
    for (const [name, argument] of Object.entries(isOnlyRef ? { $ref: schema.$ref } : schema)) {
      const keyword = ownOf(keywords, name);
      if (keyword) node.rules.push(...(keyword(argument, schema, this) ?? []));
      const last = ownOf(lastKeywords, name);
      if (last) node.lastRules.push(...last(argument, schema, this));
    }
    return node;
  }

  compileMap(schemas: unknown): ReadonlyMap<string, Node> {
    if (!isObject(schemas)) throw new Error("a map of schemas must be an object");
    return new Map(Object.entries(schemas).map(([name, schema]) => [name, this.compile(schema)]));
  }

  compileList(schemas: unknown): readonly Node[] {
    if (!Array.isArray(schemas)) throw new Error("a list of schemas must be an array");
    return schemas.map((schema) => this.compile(schema));
  }

  /** The schema that a reference names. */
  resolve(reference: string, from: Json): Node {
    const [name = "", fragment = ""] = reference.split("#", 2);
    const base =
      name === "" ? (this.#bases.get(from) ?? this.#document) : this.#resource(name, from);
    const target =
      base === undefined
        ? undefined
        : fragment === "" || fragment.startsWith("/")
          ? pointedAt(base, fragment)
          : this.#resources.get(`${nameOf(base)}#${fragment}`);
    if (target === undefined) throw new Error(`the reference "${reference}" leads nowhere`);
    return this.compile(target);
  }

  #resource(name: string, from: Json): Json | undefined {
    const base = nameOf(this.#bases.get(from) ?? this.#document);
    const absolute = URL.canParse(name, base) ? new URL(name, base).href : name;
    return this.#resources.get(name) ?? this.#resources.get(absolute);
  }
}

/** A schema may have keywords with the names of methods, such as "constructor". */
function ownOf<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

function nameOf({ $id, id }: Json): string {
  return String($id ?? id ?? "").replace(/#$/, "");
}

function pointedAt(base: unknown, pointer: string): unknown {
  let value = base;
  for (const part of pointer.split("/").slice(1)) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name))
      return undefined;
    value = (value as Json)[name];
  }
  return value;
}
