import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeBase64, decodeHex, encodeHex } from "../../base/text.ts";
import { type Lz4Codec, lz4Bound, lz4Javascript, provesLz4 } from "./lz4.ts";
import { loadLz4Wasm } from "./lz4-wasm.ts";

/** Blocks at the edges of the format, and how liblz4 1.9.4 decodes them. Refusing offset 0 is our own rule. */
const EDGES: readonly { what: string; block: string; byteLength: number; raw: string | undefined }[] = [
  { what: "no bytes", block: "", byteLength: 16, raw: undefined },
  { what: "3 literals", block: "30616263", byteLength: 3, raw: "616263" },
  { what: "3 literals, capacity 2", block: "30616263", byteLength: 2, raw: undefined },
  { what: "literal length extension cut", block: "f0", byteLength: 300, raw: undefined },
  {
    what: "15 literals (extension 0)",
    block: "f000616161616161616161616161616161",
    byteLength: 15,
    raw: "616161616161616161616161616161",
  },
  { what: "match offset 0", block: "14610000506262626262", byteLength: 64, raw: undefined },
  { what: "offset has one byte only", block: "146101", byteLength: 64, raw: undefined },
  { what: "match length extension missing", block: "1f610100", byteLength: 64, raw: undefined },
  {
    what: "1 literal, offset 1, match 15, 5 literals",
    block: "1b610100506262626262",
    byteLength: 21,
    raw: "616161616161616161616161616161616262626262",
  },
  { what: "same, capacity one short", block: "1b610100506262626262", byteLength: 20, raw: undefined },
  { what: "only 4 final literals after the match", block: "1b6101004062626262", byteLength: 64, raw: undefined },
  { what: "final sequence with zero literals (token 00)", block: "1b61010000", byteLength: 64, raw: undefined },
  { what: "bytes after a complete block, capacity reached", block: "306162637a7a", byteLength: 3, raw: undefined },
  { what: "offset 65535 with little output", block: "1461ffff506262626262", byteLength: 64, raw: undefined },
  { what: "decodes to fewer bytes than capacity", block: "5068656c6c6f", byteLength: 5, raw: "68656c6c6f" },
];

/** Blocks that liblz4 wrote (fast and HC), with the SHA-256 of the input. */
const LIBLZ4 = [
  {
    raw: 65536,
    sha256: "de2f256064a0af797747c2b97505dc0b9f3df0de4f489eac731c23ae9ca9cc31",
    block:
      "HwABAP/////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////////nUAAAAAAA",
  },
  {
    raw: 1000,
    sha256: "87798fccb28705d62950657dc17c3f3c28ebe78db1e8e632b3c5560e86d92e8a",
    block: "Pz21tAMA////0FC0PbW0PQ==",
  },
  {
    raw: 1000,
    sha256: "87798fccb28705d62950657dc17c3f3c28ebe78db1e8e632b3c5560e86d92e8a",
    block: "/wM9tbQ9tbQ9tbQ9tbQ9tbQ9tbQSAP///8FQtD21tD0=",
  },
  {
    raw: 1000,
    sha256: "460599b9e10e278cf281941781d5d0a9c9887ba928b3039726a8ced2ea614b99",
    block: "T/XXxGcEAP///89QZ/XXxGc=",
  },
  {
    raw: 1000,
    sha256: "460599b9e10e278cf281941781d5d0a9c9887ba928b3039726a8ced2ea614b99",
    block: "/xX118Rn9dfEZ/XXxGf118Rn9dfEZ/XXxGf118Rn9dfEZ/XXxGckAP///69QZ/XXxGc=",
  },
  {
    raw: 1000,
    sha256: "e430099d1a25cdba7722173bea72a5761a5572065287b844906f9ce33feecdab",
    block: "f90oGSJSf6IHAP///8xQKBkiUn8=",
  },
  {
    raw: 1000,
    sha256: "e430099d1a25cdba7722173bea72a5761a5572065287b844906f9ce33feecdab",
    block: "/xTdKBkiUn+i3SgZIlJ/ot0oGSJSf6LdKBkiUn+i3SgZIlJ/oiMA////sFAoGSJSfw==",
  },
  {
    raw: 1000,
    sha256: "f9223d1626f5259e0dce1d979461fdeb7d808a4979d562ad54994dc7f515cd42",
    block: "/wAkfTi1I1yw8jeO/pKYSAUPAP///8RQXLDyN44=",
  },
];

const AT = { source: "test" };
const CODECS: readonly [string, () => Promise<Lz4Codec>][] = [
  ["javascript", async () => lz4Javascript],
  ["wasm", loadLz4Wasm],
];

describe.each(CODECS)("LZ4 blocks, %s", (_name, load) => {
  it("proves itself", async () => {
    expect(provesLz4(await load())).toBe(true);
  });

  it.each(EDGES)("$what", async ({ block, byteLength, raw }) => {
    const codec = await load();
    const into = new Uint8Array(byteLength);
    const decode = (): void => codec.decode(decodeHex(block) ?? new Uint8Array(0), into, AT);
    if (raw === undefined) return expect(decode).toThrow(expect.objectContaining({ code: "format/lz4.block" }));
    decode();
    expect(encodeHex(into)).toBe(raw);
  });

  it.each(LIBLZ4)("reads what liblz4 wrote: $raw bytes", async ({ raw, sha256, block }) => {
    const into = new Uint8Array(raw);
    (await load()).decode(decodeBase64(block) ?? new Uint8Array(0), into, AT);
    expect(createHash("sha256").update(into).digest("hex")).toBe(sha256);
  });

  it("decodes what it encoded, up to 64 KiB and beyond", async () => {
    const codec = await load();
    const runs = fc.array(fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 9 }), fc.integer({ min: 1, max: 3000 })));
    fc.assert(
      fc.property(runs, (parts) => {
        const raw = Uint8Array.from(
          parts.flatMap(([bytes, count]) => Array.from({ length: count }, () => [...bytes]).flat()),
        );
        const room = new Uint8Array(lz4Bound(raw.byteLength));
        const byteLength = codec.encode(raw, room) ?? -1;
        const back = new Uint8Array(raw.byteLength);
        codec.decode(room.slice(0, byteLength), back, AT);
        expect(Buffer.compare(back, raw)).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  it("never crashes on damage, and never returns another length", async () => {
    const codec = await load();
    const raw = Uint8Array.from({ length: 5000 }, (_, i) => (i % 11 < 6 ? 7 : (i * 37) & 255));
    const room = new Uint8Array(lz4Bound(raw.byteLength));
    const block = room.slice(0, codec.encode(raw, room));
    fc.assert(
      fc.property(fc.nat(block.byteLength - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const damaged = block.slice();
        damaged[at] = (damaged[at] as number) ^ change;
        try {
          codec.decode(damaged, new Uint8Array(raw.byteLength), AT);
        } catch (error) {
          expect(error).toMatchObject({ code: "format/lz4.block" });
        }
      }),
    );
  });

  it("says when a block does not fit", async () => {
    const codec = await load();
    const noise = Uint8Array.from({ length: 300 }, (_, i) => (i * i * 7919) >> 4);
    expect(codec.encode(noise, new Uint8Array(200))).toBeUndefined();
  });
});
