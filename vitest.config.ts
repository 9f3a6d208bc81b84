import { defineConfig } from "vitest/config";

const minutes = 60_000;
const deep = process.env.RIVULET_DEEP === "1";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    setupFiles: ["test/support/seed-properties.ts"],
    testTimeout: deep ? 240 * minutes : 2 * minutes,
    hookTimeout: 2 * minutes,
  },
});
