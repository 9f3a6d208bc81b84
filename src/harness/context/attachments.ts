import type { Permissions, PrepareInput } from "../../agent/index.ts";
import { reasonOf } from "../../base/error.ts";
import type { Block, Message } from "../../contract/index.ts";
import { guardFiles, rulesOnReading } from "../filesystem/file-rules.ts";
import type { Filesystem } from "../filesystem/filesystem.ts";
import { isBinary } from "../filesystem/text.ts";
import { frameFile, notes } from "../prompts.ts";
import type { Workspace } from "../workspace.ts";

const limits = { files: 10, charactersEach: 40_000, characters: 100_000, imageBytes: 5_000_000 };
const maxMentions = 50; // in one text
const maxMentionLength = 1_000;

/** Attaches the files that a user's message mentions as `@path`, once, so that a resumed task sees the same content. */
export function attachments(workspace: Workspace, permissions: Permissions = {}): PrepareInput {
  const rules = rulesOnReading([permissions]);
  return async (messages, task) => {
    const files = guardFiles(workspace.viewOf(task).files, rules);
    const room: Room = { files: limits.files, characters: limits.characters };
    const prepared: Message[] = [];
    for (const message of messages) {
      const attached = message.role === "user" ? await attach(files, message, room) : [];
      const content = [...message.content, ...attached];
      prepared.push(attached.length > 0 ? { ...message, content } : message);
    }
    return prepared;
  };
}

type Room = { files: number; characters: number };

async function attach(files: Filesystem, message: Message, room: Room): Promise<readonly Block[]> {
  const texts = message.content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const paths = new Set<string>();
  for (const spellings of texts.flatMap(mentionsIn)) {
    const path = await firstFile(files, spellings);
    if (path !== undefined) paths.add(path);
  }
  const attached = [...paths].slice(0, room.files);
  const omitted = [...paths].slice(room.files);
  room.files -= attached.length;
  const blocks: Block[] = [];
  for (const path of attached) blocks.push(...(await readAttachment(files, path, room)));
  if (omitted.length > 0) blocks.push(hint(notes.tooManyFiles(limits.files, omitted)));
  return blocks;
}

async function firstFile(files: Filesystem, spellings: readonly string[]) {
  for (const spelling of spellings) {
    // An "@" with an invalid path is ordinary text.
    const stat = await files.stat(spelling).catch(() => undefined);
    if (stat && stat.type !== "directory") return stat.path;
  }
  return undefined;
}

async function readAttachment(
  files: Filesystem,
  path: string,
  room: Room,
): Promise<readonly Block[]> {
  const refuse = (reason: string) => [hint(notes.notAttached(path, reason))];
  try {
    const { data } = await files.read(path);
    const mimeType = imageType(data);
    if (mimeType !== undefined) {
      const { imageBytes } = limits;
      if (data.length > imageBytes) return refuse(`images must have at most ${imageBytes} bytes`);
      const source = { data: Buffer.from(data).toString("base64"), mimeType };
      return [hint(notes.image(path)), { type: "image", source }];
    }
    if (isBinary(data)) return refuse("it is neither text nor an image");
    return textAttachment(path, new TextDecoder().decode(data), room);
  } catch (error) {
    return refuse(reasonOf(error));
  }
}

function textAttachment(path: string, text: string, room: Room): readonly Block[] {
  const length = Math.min(text.length, limits.charactersEach, room.characters);
  room.characters -= length;
  const head = text.slice(0, length).toWellFormed();
  const missing = text.length - length;
  return [
    hint(frameFile("attached-file", path, head)),
    ...(missing > 0 ? [hint(notes.cut(`@${path}`, missing, text.length))] : []),
  ];
}

function hint(text: string): Block {
  return { type: "hint", text };
}

const signatures: readonly (readonly [type: string, start: string])[] = [
  ["image/png", "\x89PNG\r\n\x1a\n"],
  ["image/jpeg", "\xff\xd8\xff"],
  ["image/gif", "GIF87a"],
  ["image/gif", "GIF89a"],
];

/** Detects an image by its first bytes, because its name may be wrong. */
function imageType(data: Uint8Array): string | undefined {
  const start = Buffer.from(data.subarray(0, 12)).toString("latin1");
  if (start.startsWith("RIFF") && start.endsWith("WEBP")) return "image/webp";
  return signatures.find(([, signature]) => start.startsWith(signature))?.[0];
}

// The lookbehind excludes e-mail addresses, URLs and "\@". An unquoted mention ends at a space, quote, tag bracket or
// non-ASCII punctuation, which Chinese text puts right after it.
const mention = /(?<![\w.+%@/\\-])@(?:"([^"\n]+)"|((?:(?![\s"`<>]|(?![!-~])\p{P}).)+))/gu;
const closing = /[.,;:!?)\]}'*_~]+$/;

/** Finds `@path` and `@"a path"` outside code; returns the possible spellings of each mention, the likeliest first. */
export function mentionsIn(text: string): readonly (readonly string[])[] {
  const mentions: (readonly string[])[] = [];
  for (const [, quoted, plain = ""] of withoutCode(text).matchAll(mention)) {
    if (mentions.length === maxMentions) break;
    if ((quoted ?? plain).length > maxMentionLength) continue;
    const spellings = quoted === undefined ? [plain, plain.replace(closing, "")] : [quoted];
    mentions.push([...new Set(spellings)].filter((path) => path !== ""));
  }
  return mentions;
}

function withoutCode(text: string): string {
  if (!text.includes("`") && !text.includes("~~~")) return text;
  const kept: string[] = [];
  let fence: string | undefined;
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/.exec(line)?.[1];
    if (fence === undefined && mark === undefined) kept.push(line);
    else if (fence === undefined) fence = mark;
    else if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined;
  }
  return withoutSpans(kept.join("\n"));
}

function withoutSpans(text: string): string {
  const pieces = text.split(/(`+)/); // every second piece is a run of backticks
  const next: number[] = [];
  const latest = new Map<number, number>();
  for (let index = pieces.length - 2; index > 0; index -= 2) {
    const { length } = pieces[index] as string;
    next[index] = latest.get(length) ?? 0;
    latest.set(length, index);
  }
  let kept = "";
  for (let index = 0; index < pieces.length; index++) {
    const end = index % 2 === 1 ? next[index] : 0;
    if (end) index = end;
    // A space keeps the text around the code apart.
    kept += end ? " " : pieces[index];
  }
  return kept;
}
