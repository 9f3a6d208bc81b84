import type { PrepareInput } from "../agent/input.ts";
import { reasonOf } from "../agent/tool/result.ts";
import type { Block, Message } from "../protocol/message.ts";
import type { Filesystem } from "./filesystem/filesystem.ts";
import { isBinary } from "./filesystem/text.ts";
import { framed } from "./framed.ts";
import { mentionsIn } from "./mentions.ts";
import type { Workspace } from "./workspace.ts";

/** What one call may bring with it. */
const limits = { files: 10, charactersEach: 40_000, characters: 100_000, imageBytes: 5_000_000 };

/**
 * Attaches the files that a user's message mentions as `@path`. They are read once, when the message arrives, and stay
 * in the transcript as they were then: a resume sees the same. What was said stays as it is, and so does a mention of
 * what is no file.
 */
export function attachments(workspace: Workspace): PrepareInput {
  return async (messages, task) => {
    const { files } = workspace.viewOf(task);
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

/** What is left of the limits. */
interface Room {
  files: number;
  characters: number;
}

async function attach(files: Filesystem, message: Message, room: Room): Promise<readonly Block[]> {
  const said = message.content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const paths = new Set<string>();
  for (const spellings of said.flatMap(mentionsIn)) {
    const path = await firstFile(files, spellings);
    if (path !== undefined) paths.add(path);
  }
  const blocks: Block[] = [];
  const leftOut: string[] = [];
  for (const path of paths) {
    if (room.files === 0) {
      leftOut.push(`@${path}`);
      continue;
    }
    room.files -= 1;
    blocks.push(...(await readAttachment(files, path, room)));
  }
  if (leftOut.length > 0) {
    blocks.push(note(`Not attached, because ${limits.files} files are: ${leftOut.join(", ")}`));
  }
  return blocks;
}

/** The first of the spellings that names something to attach. */
async function firstFile(
  files: Filesystem,
  spellings: readonly string[],
): Promise<string | undefined> {
  for (const spelling of spellings) {
    // A path that is refused is no mention of a file: an "@" may mean many things.
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
  try {
    const { data } = await files.read(path);
    const mimeType = imageType(data);
    if (mimeType !== undefined) {
      if (data.length > limits.imageBytes) {
        return [note(`@${path} is not attached: images have at most ${limits.imageBytes} bytes`)];
      }
      const source = { data: Buffer.from(data).toString("base64"), mimeType };
      return [note(`@${path} is this image:`), { type: "image", source }];
    }
    if (isBinary(data)) return [note(`@${path} is not attached: it is neither text nor an image`)];
    return textAttachment(path, new TextDecoder().decode(data), room);
  } catch (error) {
    return [note(`@${path} is not attached: ${reasonOf(error)}`)];
  }
}

function textAttachment(path: string, text: string, room: Room): readonly Block[] {
  const length = Math.min(text.length, limits.charactersEach, room.characters);
  room.characters -= length;
  const head = text.slice(0, length).toWellFormed();
  const blocks: Block[] = [{ type: "hint", text: framed("attached-file", path, head) }];
  if (length < text.length) {
    const missing = text.length - length;
    const cut = `@${path} is cut here: ${missing} of its ${text.length} characters are missing`;
    blocks.push(note(`${cut}. Read the file for the rest.`));
  }
  return blocks;
}

function note(text: string): Block {
  return { type: "hint", text: `[${text}]` };
}

const signatures: readonly (readonly [type: string, start: string])[] = [
  ["image/png", "\x89PNG\r\n\x1a\n"],
  ["image/jpeg", "\xff\xd8\xff"],
  ["image/gif", "GIF87a"],
  ["image/gif", "GIF89a"],
];

/** What kind of image it is, by its first bytes: a name may say anything. */
function imageType(data: Uint8Array): string | undefined {
  const start = Buffer.from(data.subarray(0, 12)).toString("latin1");
  if (start.startsWith("RIFF") && start.endsWith("WEBP")) return "image/webp";
  return signatures.find(([, signature]) => start.startsWith(signature))?.[0];
}
