// The grammar of the wire. The TypeScript types, the reader, the linter, the zod schemas, the JSON Schema, the AsyncAPI
// document and the page of all fields are made from it.

export * from "./event.ts";
export * from "./item.ts";
export * from "./task.ts";
export * from "./words.ts";
