// Answers the conformance kit with this package, or with the copy of `rivulet/protocol` that the argument names.
import { createInterface } from "node:readline";
import { answer, type Protocol } from "./answer.ts";

const file = process.argv[2] ?? "../../src/protocol.ts";
const rivulet = (await import(file)) as Protocol;
for await (const line of createInterface({ input: process.stdin })) {
  const vector = JSON.parse(line);
  console.log(JSON.stringify({ name: vector.name, ...answer(rivulet, vector) }));
}
