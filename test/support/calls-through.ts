import type { Store } from "../../src/contract/store.ts";

/** The calls of a store, each passed through a function that may delay, repeat or refuse it. */
export function callsThrough(shared: Store, pass: <T>(ask: () => Promise<T>) => Promise<T>) {
  return {
    acquire: (...args) => pass(() => shared.acquire(...args)),
    renew: (...args) => pass(() => shared.renew(...args)),
    release: (...args) => pass(() => shared.release(...args)),
    owner: (...args) => pass(() => shared.owner(...args)),
    expired: (...args) => pass(() => shared.expired(...args)),
    commit: (...args) => pass(() => shared.commit(...args)),
    enqueue: (...args) => pass(() => shared.enqueue(...args)),
    post: (...args) => pass(() => shared.post(...args)),
    posts: (...args) => pass(() => shared.posts(...args)),
    read: (...args) => pass(() => shared.read(...args)),
    last: (...args) => pass(() => shared.last(...args)),
    trim: (...args) => pass(() => shared.trim(...args)),
    snapshot: (...args) => pass(() => shared.snapshot(...args)),
    session: (...args) => pass(() => shared.session(...args)),
    sessions: (...args) => pass(() => shared.sessions(...args)),
    search: (...args) => pass(() => shared.search(...args)),
    deleteSession: (...args) => pass(() => shared.deleteSession(...args)),
    task: (...args) => pass(() => shared.task(...args)),
    tasks: (...args) => pass(() => shared.tasks(...args)),
  } satisfies Partial<Store>;
}
