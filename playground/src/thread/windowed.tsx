import { type ReactNode, useLayoutEffect, useRef, useState } from "react";

const chunkSize = 40;

interface WindowedProps<T> {
  readonly rows: readonly T[];
  /** An estimate of the height of a row before it was shown. */
  readonly rowHeight: number;
  /** The index of a row that must be shown. */
  readonly reveal?: number | undefined;
  readonly children: (row: T, index: number) => ReactNode;
}

/**
 * A list that shows only the chunks near the screen. Others keep their height, so lists can be nested in each other at
 * any depth, and the scroll bar stays true.
 */
export function Windowed<T>({ rows, rowHeight, reveal, children }: WindowedProps<T>) {
  if (rows.length <= 2 * chunkSize) return rows.map(children);
  const chunks: ReactNode[] = [];
  for (let from = 0; from < rows.length; from += chunkSize) {
    const to = Math.min(from + chunkSize, rows.length);
    const isRevealed = reveal !== undefined && reveal >= from && reveal < to;
    chunks.push(
      <Chunk
        key={from}
        height={(to - from) * rowHeight}
        // The end of a list that grows is shown without a wait.
        isShown={isRevealed || to === rows.length}
      >
        {() => rows.slice(from, to).map((row, index) => children(row, from + index))}
      </Chunk>,
    );
  }
  return chunks;
}

interface ChunkProps {
  readonly height: number;
  readonly isShown: boolean;
  readonly children: () => ReactNode;
}

function Chunk({ height, isShown, children }: ChunkProps) {
  const element = useRef<HTMLDivElement>(null);
  const measured = useRef<number>(undefined);
  const [isNear, setNear] = useState(isShown);
  useLayoutEffect(() => {
    const { current } = element;
    if (current === null) return;
    const observer = new IntersectionObserver(
      (entries) => {
        const entry = entries.at(-1); // a chunk that came and went has several, the latest last
        if (entry === undefined) return;
        if (!entry.isIntersecting && entry.boundingClientRect.height > 0)
          measured.current = entry.boundingClientRect.height;
        setNear(entry.isIntersecting);
      },
      { root: current.closest(".talk"), rootMargin: "1200px 0px" },
    );
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  const isOpen = isNear || isShown;
  const minHeight = isOpen ? undefined : (measured.current ?? height);
  return (
    <div ref={element} className="chunk" style={{ minHeight }}>
      {isOpen && children()}
    </div>
  );
}
