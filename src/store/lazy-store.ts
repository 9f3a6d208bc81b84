import type { CommittedEvents, Store, WatchKey } from "../contract/index.ts";
import { storeClosed } from "./store-error.ts";

/** A store that machines share, whose code is loaded by the first call, which waits for it. */
export function lazyStore(load: () => Promise<Store>): Store {
  let loading: Promise<Store> | undefined;
  let loaded: Store | undefined;
  let isClosed = false;

  async function store(): Promise<Store> {
    if (loaded) return loaded;
    if (isClosed) throw storeClosed();
    loading ??= load();
    try {
      loaded = await loading;
    } catch (error) {
      loading = undefined; // the next call tries again, for example after an install
      throw error;
    }
    return loaded;
  }

  function watch(key: WatchKey, wake: (committed?: CommittedEvents) => void): () => void {
    if (loaded) return loaded.watch(key, wake);
    let isStopped = false;
    let stop = () => {};
    const start = (opened: Store) => {
      if (isStopped) return;
      stop = opened.watch(key, wake);
      wake(); // changes before the watch began
    };
    store().then(start, () => wake()); // the read after the wake gets the error
    return () => {
      isStopped = true;
      stop();
    };
  }

  return {
    isShared: true,
    acquire: async (...args) => (await store()).acquire(...args),
    renew: async (...args) => (await store()).renew(...args),
    release: async (...args) => (await store()).release(...args),
    owner: async (...args) => (await store()).owner(...args),
    expired: async (...args) => (await store()).expired(...args),
    claim: async (...args) => (await store()).claim?.(...args) ?? [],
    heartbeat: async (...args) => (await store()).heartbeat?.(...args),
    nodes: async () => (await store()).nodes?.() ?? [],
    commit: async (...args) => (await store()).commit(...args),
    enqueue: async (...args) => (await store()).enqueue(...args),
    post: async (...args) => (await store()).post(...args),
    posts: async (...args) => (await store()).posts(...args),
    read: async (...args) => (await store()).read(...args),
    last: async (...args) => (await store()).last(...args),
    trim: async (...args) => (await store()).trim(...args),
    snapshot: async (...args) => (await store()).snapshot(...args),
    session: async (...args) => (await store()).session(...args),
    sessions: async (...args) => (await store()).sessions(...args),
    search: async (...args) => (await store()).search(...args),
    deleteSession: async (...args) => (await store()).deleteSession(...args),
    task: async (...args) => (await store()).task(...args),
    tasks: async (...args) => (await store()).tasks(...args),
    watch,
    files: {
      get: async (...args) => (await store()).files.get(...args),
      put: async (...args) => (await store()).files.put(...args),
      delete: async (...args) => (await store()).files.delete(...args),
      list: async (...args) => (await store()).files.list(...args),
    },
    async close() {
      isClosed = true;
      await loading?.then((opened) => opened.close());
    },
  };
}
