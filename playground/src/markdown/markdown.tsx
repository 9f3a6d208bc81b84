import { createContext, Fragment, memo, type ReactNode, useContext, useMemo } from "react";
import type { Annotation } from "rivulet/protocol";
import { urlOf } from "../state/url.ts";
import { type Chunk, chunksOf, type Line, type Parsed, parseChunk } from "./blocks.ts";
import { type Inline, parseInline } from "./inline.ts";

/** How a citation of the text is shown. */
export type RenderCitation = (annotation: Annotation | undefined, text: string) => ReactNode;

const CitationContext = createContext<RenderCitation>((_, text) => text);

interface MarkdownProps {
  readonly text: string;
  readonly annotations?: readonly Annotation[] | undefined;
  /** True while the text grows: half-written syntax does not show. */
  readonly isOpen: boolean;
  /** Where one process stopped and the next continued. */
  readonly seam?: number | undefined;
  /** Follows the last word. */
  readonly tail?: ReactNode;
  readonly renderCitation: RenderCitation;
}

/** Shows Markdown, also while it is being written. Only the last chunk of a growing text renders again. */
export function Markdown(props: MarkdownProps) {
  const { text, annotations, isOpen, seam, tail, renderCitation } = props;
  const chunks = useMemo(() => chunksOf(text), [text]);
  const lastIndex = chunks.length - 1;
  return (
    <CitationContext value={renderCitation}>
      {chunks.map((chunk, index) => {
        const end = chunk.from + chunk.text.length;
        const isLast = index === lastIndex;
        const cited = annotationsIn(annotations, chunk.from, end);
        const isSeamed = seam !== undefined && seam < end;
        return (
          <ShownChunk
            key={chunk.from}
            from={chunk.from}
            text={chunk.text}
            cited={cited}
            isOpen={isOpen && isLast}
            seam={isSeamed ? seam : undefined}
            tail={isLast ? tail : undefined}
          />
        );
      })}
      {chunks.length === 0 && tail}
    </CitationContext>
  );
}

/** The citations of a chunk as text, which is equal if they are. */
function annotationsIn(
  annotations: readonly Annotation[] | undefined,
  from: number,
  to: number,
): string {
  const inside = annotations?.filter((one) => one.start_index >= from && one.start_index < to);
  return inside && inside.length > 0 ? JSON.stringify(inside) : "";
}

interface ChunkProps extends Chunk {
  readonly cited: string;
  readonly isOpen: boolean;
  readonly seam: number | undefined;
  readonly tail: ReactNode;
}

const ShownChunk = memo(function ShownChunk({ text, from, cited, isOpen, seam, tail }: ChunkProps) {
  const list = cited === "" ? [] : (JSON.parse(cited) as Annotation[]);
  const annotations = new Map(list.map((annotation) => [annotation.start_index, annotation]));
  const blocks = parseChunk({ text, from }, isOpen);
  const view: View = { context: { annotations, isOpen }, seam, tail, last: blocks.at(-1) };
  return blocks.map((block, index) => (
    <Fragment key={index.toString()}>{showBlock(block, view)}</Fragment>
  ));
});

interface View {
  readonly context: Parameters<typeof parseInline>[2];
  readonly seam: number | undefined;
  readonly tail: ReactNode;
  /** The block that the tail belongs to. */
  readonly last: Parsed | undefined;
}

function showBlock(block: Parsed, view: View): ReactNode {
  const tail = block === view.last ? view.tail : null;
  switch (block.type) {
    case "paragraph":
      return (
        <p>
          {showLines(block.lines, view)}
          {tail}
        </p>
      );
    case "heading":
      return (
        <p className="md-h" data-level={block.level}>
          {showLines([block.line], view)}
          {tail}
        </p>
      );
    case "rule":
      return <hr />;
    case "code":
      return (
        <pre className="md-code">
          <code>{block.text}</code>
          {tail}
        </pre>
      );
    case "quote":
      return (
        <blockquote>
          {block.children.map((inner, index) => (
            <Fragment key={index.toString()}>{showBlock(inner, view)}</Fragment>
          ))}
          {tail}
        </blockquote>
      );
    case "list":
      return showList(block, view, tail);
    case "table":
      return (
        <div className="md-table">
          <table>
            <thead>
              <tr>{block.head.map((cell, at) => showCell("th", cell, block.aligns[at], view))}</tr>
            </thead>
            <tbody>
              {block.rows.map((row, index) => (
                <tr key={index.toString()}>
                  {row.map((cell, at) => showCell("td", cell, block.aligns[at], view))}
                </tr>
              ))}
            </tbody>
          </table>
          {tail}
        </div>
      );
  }
}

function showList(
  { start, entries }: Parsed & { type: "list" },
  view: View,
  tail: ReactNode,
): ReactNode {
  const lastEntry = entries.at(-1);
  const shown = entries.map((entry) => (
    <li key={entry.lines[0]?.from}>
      {showLines(entry.lines, view)}
      {entry === lastEntry && entry.children.length === 0 && tail}
      {entry.children.map((inner, index) => (
        <Fragment key={index.toString()}>
          {showBlock(inner, entry === lastEntry ? { ...view, last: inner, tail } : view)}
        </Fragment>
      ))}
    </li>
  ));
  return start === undefined ? <ul>{shown}</ul> : <ol start={start}>{shown}</ol>;
}

function showCell(Cell: "th" | "td", line: Line, align: string | undefined, view: View): ReactNode {
  return (
    <Cell key={line.from} data-align={align}>
      {showLines([line], view)}
    </Cell>
  );
}

function showLines(lines: readonly Line[], { context, seam }: View): ReactNode {
  return lines.map((line, index) => (
    <Fragment key={line.from}>
      {index > 0 && (/ {2}$/.test(lines[index - 1]?.text ?? "") ? <br /> : " ")}
      <ShownInlines nodes={parseInline(line.text, line.from, context)} seam={seam} />
    </Fragment>
  ));
}

function ShownInlines({
  nodes,
  seam,
}: {
  readonly nodes: readonly Inline[];
  readonly seam: number | undefined;
}): ReactNode {
  const renderCitation = useContext(CitationContext);
  const inner = (children: readonly Inline[]) => <ShownInlines nodes={children} seam={seam} />;
  const show = (node: Inline): ReactNode => {
    switch (node.type) {
      case "text":
        return seamed(node.text, node.from, seam);
      case "code":
        return <code>{seamed(node.text, node.from, seam)}</code>;
      case "cite":
        return renderCitation(node.annotation, node.text);
      case "link":
        return <SafeLink url={node.url}>{inner(node.children)}</SafeLink>;
      case "image": {
        const url = urlOf(node.url);
        if (url) return <img src={url} alt={node.alt} />;
        return <SafeLink url={node.url}>{node.alt || node.url}</SafeLink>;
      }
      default:
        return <node.type>{inner(node.children)}</node.type>;
    }
  };
  return nodes.map((node, index) => <Fragment key={index.toString()}>{show(node)}</Fragment>);
}

function SafeLink({ url, children }: { readonly url: string; readonly children: ReactNode }) {
  if (!/^(https?:\/\/|mailto:)/i.test(url)) return children;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

/** Text with the place where one process stopped and the next continued. */
function seamed(text: string, from: number, seam: number | undefined): ReactNode {
  if (seam === undefined || from + text.length <= seam) return text;
  if (from > seam) return <span className="fresh">{text}</span>;
  return (
    <>
      {text.slice(0, seam - from)}
      <i className="seam" title="Here one process stopped and the next continued." />
      <span className="fresh">{text.slice(seam - from)}</span>
    </>
  );
}
