import { memo, useCallback, useMemo } from "react";
import type { Item, MessageItem, WireBlock, WireImageBlock, WireTextBlock } from "rivulet/protocol";
import { Icon } from "../icons.tsx";
import { Markdown, type RenderCitation } from "../markdown/markdown.tsx";
import { type Source, sourcesOf } from "../state/citations.ts";
import { shownText, textKey } from "../state/heals.ts";
import type { RunLog } from "../state/run-log.ts";
import { urlOf } from "../state/url.ts";
import { copyText } from "../stream/playback.ts";
import { Citation, Sources } from "./citation.tsx";
import { useLogView } from "./context.ts";

interface ItemProps {
  readonly log: RunLog;
  readonly taskId: string;
  readonly index: number;
  readonly item: Item;
  /** True: it addresses the person. */
  readonly isLead: boolean;
}

/** A reasoning, a message or a result without a call. */
export const ShownItem = memo(function ShownItem(props: ItemProps) {
  const { item, log, taskId, index, isLead } = props;
  switch (item.type) {
    case "reasoning":
      return <Reasoning log={log} taskId={taskId} index={index} item={item} />;
    case "message":
      return <Message log={log} taskId={taskId} index={index} item={item} isLead={isLead} />;
    case "discarded":
      return <Discarded log={log} taskId={taskId} index={index} isLead={isLead} />;
    case "tool_result":
      return <Blocks blocks={item.block_list} />;
    default:
      return null;
  }
});

type PartProps = Omit<ItemProps, "item" | "isLead">;

/** The text that stood here when the connection broke, until the new text has caught up with it. */
function useHeldText({ log, taskId, index }: PartProps): string | undefined {
  return useLogView(log, ({ healing }) => healing?.texts.get(textKey(taskId, index)));
}

/** The text that an interrupted item of this task had; the item that replaces it continues there. */
function useSeam(log: RunLog, taskId: string, index: number): string | undefined {
  return useLogView(log, ({ healing }) => {
    if (healing === undefined) return undefined;
    for (const [key, text] of healing.texts) {
      const [task, at] = key.split("#");
      if (task === taskId && Number(at) <= index && text !== "") return text;
    }
    return undefined;
  });
}

function useIsHeld(log: RunLog): boolean {
  return useLogView(log, ({ healing }) => healing?.status === "held");
}

/** An item that a recovered process writes again keeps its words on the screen until then. */
function Discarded(props: PartProps & { readonly isLead: boolean }) {
  const held = useHeldText(props);
  const isReplaced = useLogView(props.log, ({ tree }) =>
    (tree.tasks[props.taskId]?.output ?? [])
      .slice(props.index + 1)
      .some((item) => item.type === "message" || item.type === "reasoning"),
  );
  if (held === undefined || held === "" || isReplaced) return null;
  return (
    <div className={props.isLead ? "say lead" : "say"}>
      <Markdown text={held} isOpen tail={<Caret isHeld />} renderCitation={noCitation} />
    </div>
  );
}

const noCitation: RenderCitation = () => null;

function Reasoning({ item, ...props }: PartProps & { readonly item: Item }) {
  const isHeld = useIsHeld(props.log);
  const seam = useSeam(props.log, props.taskId, props.index);
  const own = shownText(item);
  const isOpen = item.status === "in_progress";
  const text = seam?.startsWith(own) && isOpen ? seam : own;
  if (text === "" && !isOpen) return null;
  return (
    <div className="think">
      <Markdown
        text={text}
        isOpen={isOpen}
        tail={isOpen && <Caret isHeld={isHeld} />}
        renderCitation={noCitation}
      />
    </div>
  );
}

function Message({ item, isLead, ...props }: ItemProps & { readonly item: MessageItem }) {
  const { log, taskId, index } = props;
  const isHeld = useIsHeld(log);
  const seam = useSeam(log, taskId, index);
  const isOpen = item.status === "in_progress";
  const lastBlock = item.block_list.length - 1;
  const sources = useSources(log, item.block_list);
  return (
    <div className={isLead ? "say lead" : "say"} data-item={item.id}>
      {item.block_list.map((block, at) =>
        block.type === "text" ? (
          <TextBlock
            key={at.toString()}
            log={log}
            block={block}
            sources={sources[at]}
            isOpen={isOpen && at === lastBlock}
            isHeld={isHeld}
            seam={at === 0 ? seam : undefined}
          />
        ) : (
          <Block key={at.toString()} block={block} />
        ),
      )}
      {item.block_list.length === 0 && isOpen && <Caret isHeld={isHeld} />}
      {isLead && !isOpen && sources.some(({ size }) => size > 0) && (
        <Sources log={log} sources={uniqueSources(sources)} />
      )}
      {isLead && !isOpen && <CopyAnswer blocks={item.block_list} />}
    </div>
  );
}

/** Copies the text of an answer, as the agent wrote it. */
function CopyAnswer({ blocks }: { readonly blocks: readonly WireBlock[] }) {
  const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join("\n\n");
  if (text.trim() === "") return null;
  return (
    <button
      type="button"
      className="btn sm quiet copy"
      onClick={() => void copyText(text.replace(/\[\^\d+\]/g, ""), "The answer is copied.")}
    >
      <Icon name="copy" /> Copy
    </button>
  );
}

/** The sources of each block; numbers go on from block to block. */
function useSources(log: RunLog, blocks: readonly WireBlock[]) {
  return useMemo(() => {
    const { tree } = log.getSnapshot();
    const before: Source[] = [];
    return blocks.map((block) => {
      if (block.type !== "text" || !block.annotations?.length) return new Map<number, Source>();
      const found = sourcesOf(tree, block.text, block.annotations, before);
      for (const source of found.values()) if (!before.includes(source)) before.push(source);
      return found;
    });
  }, [log, blocks]);
}

function uniqueSources(sources: readonly ReadonlyMap<number, Source>[]): readonly Source[] {
  const all = new Map<number, Source>();
  for (const map of sources) for (const source of map.values()) all.set(source.number, source);
  return [...all.values()];
}

interface TextProps {
  readonly log: RunLog;
  readonly block: WireTextBlock;
  readonly sources: ReadonlyMap<number, Source> | undefined;
  readonly isOpen: boolean;
  readonly isHeld: boolean;
  readonly seam: string | undefined;
}

function TextBlock({ log, block, sources, isOpen, isHeld, seam }: TextProps) {
  const renderCitation = useCallback<RenderCitation>(
    (annotation) => (
      <Citation log={log} source={annotation && sources?.get(annotation.start_index)} />
    ),
    [log, sources],
  );
  const { text, annotations } = block;
  // A process that continues writes the sentence again; the words stay until it has passed them.
  const isBehind =
    seam !== undefined && isOpen && seam.length > text.length && seam.startsWith(text);
  const isPast = seam !== undefined && text.length > seam.length && text.startsWith(seam);
  return (
    <Markdown
      text={isBehind ? seam : text}
      annotations={annotations}
      isOpen={isOpen}
      seam={isPast ? seam.length : undefined}
      tail={isOpen && <Caret isHeld={isHeld || isBehind} />}
      renderCitation={renderCitation}
    />
  );
}

export function Caret({ isHeld }: { readonly isHeld: boolean }) {
  return <i className={isHeld ? "caret held" : "caret"} aria-hidden="true" />;
}

/** The blocks of a result, as people see them. */
export function Blocks({ blocks }: { readonly blocks: readonly WireBlock[] }) {
  return blocks.map((block, index) => <Block key={index.toString()} block={block} />);
}

function Block({ block }: { readonly block: WireBlock }) {
  switch (block.type) {
    case "text":
      return <pre className="out">{block.text}</pre>;
    case "image":
      return <Image block={block} />;
    case "file":
    case "audio":
    case "video": {
      const url = urlOf(block.url);
      const name = block.filename ?? block.url;
      return url ? (
        <a className="filelink" href={url} download={block.filename ?? true}>
          {name}
        </a>
      ) : (
        <span className="filelink">{name}</span>
      );
    }
    default:
      return null;
  }
}

/** An image keeps its box from the moment that it is announced; previews replace each other in it. */
export function Image({ block }: { readonly block: WireImageBlock }) {
  const { width, height, partial_image_index: partial, image_url } = block;
  const url = image_url.url === "" ? undefined : urlOf(image_url.url);
  const isOpen = block.status === "in_progress" || partial !== undefined;
  const box = width && height ? { aspectRatio: `${width} / ${height}`, maxWidth: width } : {};
  const state =
    partial === undefined ? (url ? "" : "The image is on its way.") : `Preview ${partial + 1}`;
  return (
    <figure className={isOpen ? "image is-open" : "image"} style={box} data-partial={partial}>
      {url ? <img src={url} alt={isOpen ? "A preview of an image" : "An image"} /> : null}
      {!url && image_url.url !== "" && <figcaption>This image is not on this server.</figcaption>}
      {state !== "" && image_url.url === "" && <figcaption>{state}</figcaption>}
      {partial !== undefined && <figcaption>{state}</figcaption>}
    </figure>
  );
}
