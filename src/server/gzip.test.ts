import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, it } from "vitest";
import { deflated, GzipStream } from "./gzip.ts";

const part = fc.oneof(
  fc.uint8Array({ maxLength: 50 }),
  fc
    .tuple(fc.uint8Array({ minLength: 1, maxLength: 9 }), fc.nat(9_000))
    .map(([bytes, count]) => Buffer.concat(Array.from({ length: count }, () => bytes))),
);

it("is a gzip stream of its parts", () => {
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
      const stream = new GzipStream();
      const sent = parts.map((bytes) => stream.add(bytes, deflated(bytes)));
      const whole = gunzipSync(Buffer.concat([...sent, stream.end()]));
      expect(whole.equals(Buffer.concat(parts))).toBe(true);
    }),
  );
});

it("compresses pages and leaves live events as they are", () => {
  expect(deflated(Buffer.alloc(300, "x"))).toBeUndefined();
  expect(deflated(Buffer.alloc(32_000, "x"))?.length).toBeLessThan(1_000);
});
