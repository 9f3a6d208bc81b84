// Simulates seeds until a law is broken; exits with 1 and prints the seed and the problems then.
import { simulate } from "./simulate.ts";

const count = Number(process.argv[2]);
for (let seed = 1; seed <= count; seed++) {
  const { problems } = await simulate(seed);
  if (problems.length === 0) continue;
  console.info(`seed ${seed}: ${problems.join("\n")}`);
  process.exit(1);
}
process.exit(0);
