import { importsOf, resolveImport } from "./import-direction.ts";
import type { RepositoryFile } from "./repository-files.ts";

/** A file and the files it loads, with type-only imports left out. */
type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** Lists cycles of value imports, each as a path from a file back to itself; at least one cycle per tangle of files. */
export function cycleProblems(files: readonly RepositoryFile[]): readonly string[] {
  const graph = valueImports(files);
  const reported = new Set<string>();
  const problems: string[] = [];
  for (const path of graph.keys()) {
    if (reported.has(path)) continue;
    const cycle = shortestCycle(graph, path);
    if (cycle === undefined) continue;
    for (const member of cycle) reported.add(member);
    problems.push([...cycle, path].join(" -> "));
  }
  return problems;
}

function valueImports(files: readonly RepositoryFile[]): ImportGraph {
  const paths = new Set(files.map(({ path }) => path));
  return new Map(
    files.map(({ path, text }) => {
      const targets = importsOf(path, text)
        .filter(({ isTypeOnly }) => !isTypeOnly)
        .map(({ name }) => resolveImport(path, name))
        .filter((target) => target !== undefined && paths.has(target));
      return [path, targets as readonly string[]];
    }),
  );
}

/** Searches breadth-first for the shortest way from a file back to itself; returns the files on it, from `start` on. */
function shortestCycle(graph: ImportGraph, start: string): readonly string[] | undefined {
  const importers = new Map<string, string>();
  const pending = [start];
  for (const path of pending) {
    for (const target of graph.get(path) ?? []) {
      if (target === start) return pathTo(path, start, importers);
      if (importers.has(target)) continue;
      importers.set(target, path);
      pending.push(target);
    }
  }
  return undefined;
}

function pathTo(
  end: string,
  start: string,
  importers: ReadonlyMap<string, string>,
): readonly string[] {
  const path = [end];
  for (let file = end; file !== start; ) {
    file = importers.get(file) ?? start;
    path.unshift(file);
  }
  return path;
}
