const maxCommitsPerTurn = 32;
/** Not looked up at each call, because fake timers in a test must not stop the store. */
const { setImmediate: afterTurn } = globalThis;

/**
 * Lets the event loop turn after some commits: with an instant model everything else is microtasks, and no timer would
 * ever run. The returned function counts commits, and returns the promise of the next turn after too many.
 */
export function createTurns(): (written: number) => Promise<void> | undefined {
  let commits = 0;
  let nextTurn: Promise<void> | undefined;
  return (written) => {
    commits += written;
    nextTurn ??= new Promise((resolve) => {
      afterTurn(() => {
        commits = 0;
        nextTurn = undefined;
        resolve();
      });
    });
    return commits > maxCommitsPerTurn ? nextTurn : undefined;
  };
}
