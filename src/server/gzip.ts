import { constants, crc32, deflateRawSync } from "node:zlib";

/** Smaller parts stay as they are: to compress one costs more than to send it, and saves a third of it. */
const minDeflated = 2_048;
/** The most bytes of a block that is stored as it is. */
const maxStored = 65_535;
const header = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
/** An empty block that ends the data. */
const lastBlock = Buffer.from([1, 0, 0, 255, 255]);

/** Compresses a part on its own, so that all connections that send it share the result; undefined if it is too small. */
export function deflated(part: Uint8Array): Uint8Array | undefined {
  if (part.length < minDeflated) return undefined;
  return deflateRawSync(part, { level: 4, finishFlush: constants.Z_SYNC_FLUSH });
}

/** The gzip stream of one connection. Its parts are complete blocks, so a reader decodes each of them when it arrives. */
export class GzipStream {
  #crc = 0;
  #size = 0;
  #isStarted = false;

  /** The next part; `packed` is what `deflated` made of it. */
  add(part: Uint8Array, packed: Uint8Array | undefined): Uint8Array {
    this.#crc = crc32(part, this.#crc);
    this.#size = (this.#size + part.length) % 2 ** 32;
    const start = this.#isStarted ? [] : [header];
    this.#isStarted = true;
    return Buffer.concat([...start, ...(packed ? [packed] : stored(part))]);
  }

  end(): Uint8Array {
    const trailer = Buffer.alloc(8);
    trailer.writeUInt32LE(this.#crc, 0);
    trailer.writeUInt32LE(this.#size, 4);
    return Buffer.concat([...(this.#isStarted ? [] : [header]), lastBlock, trailer]);
  }
}

/** Blocks without compression. */
function stored(part: Uint8Array): Uint8Array[] {
  const blocks: Uint8Array[] = [];
  for (let at = 0; at < part.length; at += maxStored) {
    const block = part.subarray(at, at + maxStored);
    const start = Buffer.alloc(5);
    start.writeUInt16LE(block.length, 1);
    start.writeUInt16LE(block.length ^ 0xffff, 3);
    blocks.push(start, block);
  }
  return blocks;
}
