import type { Message } from "rivulet";
import { RivuletError } from "rivulet/protocol";
import { type Attached, setUi, showError } from "./ui.ts";

/** Larger files are refused before they are read. */
const maxBytes = 20_000_000;
const media = /^(image\/(png|jpeg|gif|webp)|application\/pdf)$/;
const frame = /^<attached-file name="([^"]*)">/;

/** Adds files to the next question. */
export async function attach(files: Iterable<File>): Promise<void> {
  try {
    const added = await Promise.all([...files].map(readAttached));
    setUi(({ attached }) => ({ attached: [...attached, ...added], notice: undefined }));
  } catch (error) {
    showError(error);
  }
}

/** Reads a file as a block: images and PDFs as they are, everything else as text. */
export async function readAttached(file: File): Promise<Attached> {
  const { name, type, size } = file;
  if (size > maxBytes)
    throw invalid(`${name} has ${size} bytes.`, `Attach files with at most ${maxBytes} bytes.`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (media.test(type)) {
    const kind = type.startsWith("image/") ? "image" : "file";
    return { name, block: { type: kind, source: { data: base64Of(bytes), mimeType: type } } };
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return { name, block: { type: "text", text: framed(name, text) } };
  } catch {
    // It is not text.
  }
  throw invalid(`${name} is neither text nor an image nor a PDF.`, "Attach another file.");
}

/** The text of a file in a frame that it cannot close; a code block, because `@name` in it attaches nothing. */
function framed(name: string, text: string): string {
  const fences = text.match(/`{3,}/g) ?? [];
  const fence = "`".repeat(Math.max(3, ...fences.map(({ length }) => length + 1)));
  const shown = name.replace(/["<>\n]/g, "_");
  const body = text.replaceAll("</attached-file", "<\\/attached-file");
  return `<attached-file name="${shown}">\n${fence}\n${body}\n${fence}\n</attached-file>`;
}

/** The words of a question, and the names of the files that came with it. */
export function questionOf(messages: readonly Pick<Message, "role" | "content">[]): {
  readonly text: string;
  readonly files: readonly string[];
} {
  const texts: string[] = [];
  const files: string[] = [];
  for (const block of messages.flatMap(({ role, content }) => (role === "user" ? content : []))) {
    if (block.type === "text") {
      const name = frame.exec(block.text)?.[1];
      if (name === undefined) texts.push(block.text);
      else files.push(name);
    } else if (block.type === "image") files.push("an image");
    else if (block.type === "file") files.push("a file");
    else if (block.type === "audio" || block.type === "video")
      files.push(block.type === "audio" ? "a recording" : "a video");
  }
  return { text: texts.filter(Boolean).join("\n\n"), files };
}

function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8_192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return btoa(text);
}

function invalid(message: string, hint: string): RivuletError {
  return new RivuletError("file_unsupported", message, { hint });
}
