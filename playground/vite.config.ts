import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

export default defineConfig({
  root: path("."),
  // The server may stand below a prefix that the build does not know.
  base: "./",
  plugins: [react()],
  resolve: { tsconfigPaths: true },
  build: {
    outDir: path("../dist/playground"),
    emptyOutDir: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    // The server's content policy allows no data URLs for scripts and styles.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  // `npx vite playground` serves the page from source, with the agents of a server on the default port.
  server: { proxy: { "/v1": "http://127.0.0.1:8080", "/demo": "http://127.0.0.1:8080" } },
});
