import { useSyncExternalStore } from "react";

/** A value that components can follow. */
export interface Cell<T> {
  get(): T;
  set(change: Partial<T> | ((value: T) => Partial<T>)): void;
  subscribe(onChange: () => void): () => void;
}

/** Creates a cell. */
export function cell<T extends object>(initial: T): Cell<T> {
  let value = initial;
  const subscribers = new Set<() => void>();
  return {
    get: () => value,
    set(change) {
      const changed = typeof change === "function" ? change(value) : change;
      const isSame = Object.entries(changed).every(([key, next]) => value[key as keyof T] === next);
      if (isSame) return;
      value = { ...value, ...changed };
      for (const onChange of [...subscribers]) onChange();
    },
    subscribe(onChange) {
      subscribers.add(onChange);
      return () => subscribers.delete(onChange);
    },
  };
}

/** A part of a cell; the component renders when this part changes. */
export function useCell<T, S>(followed: Cell<T>, select: (value: T) => S): S {
  return useSyncExternalStore(followed.subscribe, () => select(followed.get()));
}
