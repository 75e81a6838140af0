import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeBase64 } from "../../base/text.ts";
import { provesQuantizer, QUANT_BYTES, QUANT_ELEMENTS, QUANT_TYPES, type Quantizer } from "./quantizer.ts";
import { quantizerJavascript } from "./quantizer-javascript.ts";
import { loadQuantizerWasm } from "./quantizer-wasm.ts";

/** Inputs, little-endian float32, and the SHA-256 of their blocks by ggml 0.25.3's reference functions. */
const GGML = [
  {
    what: "block0 all +0; block1 all -0; block2 -0 at even index; block3 -0 first, zeros, one nonzero last element",
    floats:
      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" +
      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACAAAAAgAAAAIAAAACAAAAAgAAA" +
      "AIAAAACAAAAAgAAAAIAAAACAAAAAgAAAAIAAAACAAAAAgAAAAIAAAACAAAAAgAAAAIAAAACAAAAAgAAAAIAAAACAAAAAgAAAAIAA" +
      "AACAAAAAgAAAAIAAAACAAAAAgAAAAIAAAACAAAAAgAAAAIAAAAAAAAAAgAAAAAAAAACAAAAAAAAAAIAAAAAAAAAAgAAAAAAAAACA" +
      "AAAAAAAAAIAAAAAAAAAAgAAAAAAAAACAAAAAAAAAAIAAAAAAAAAAgAAAAAAAAACAAAAAAAAAAIAAAAAAAAAAgAAAAAAAAACAAAAA" +
      "AAAAAIAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" +
      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgD8=",
    sha256: {
      Q8_0: "e846e50ae25aaef1efe85905abd62eb1b4bc85d0e7bbb3299d39eaeef5522c7c",
      Q4_0: "b0026eb8fd6db66f89019fbb1955b7c2a093410c34cbb813d385ddad22fe2e63",
      Q4_1: "32bfd7f18b42170c3b8f8f7009423058496abe69d4ef5e8ba9a350af6881cf36",
      Q5_0: "3a80c5b9a42a35456ddc73ac1862602300b45e5b8a080179c993d16ec343462e",
      Q5_1: "8f8a90123ae977ff1a5ca1a3994050fe3efb8ac160672f3d05efb2620101b573",
    },
  },
  {
    what: "four constant blocks",
    floats:
      "AADAPwAAwD8AAMA/AADAPwAAwD8AAMA/AADAPwAAwD8AAMA/AADAPwAAwD8AAMA/AADAPwAAwD8AAMA/AADAPwAAwD8AAMA/AADA" +
      "PwAAwD8AAMA/AADAPwAAwD8AAMA/AADAPwAAwD8AAMA/AADAPwAAwD8AAMA/AADAPwAAwD8AAFDAAABQwAAAUMAAAFDAAABQwAAA" +
      "UMAAAFDAAABQwAAAUMAAAFDAAABQwAAAUMAAAFDAAABQwAAAUMAAAFDAAABQwAAAUMAAAFDAAABQwAAAUMAAAFDAAABQwAAAUMAA" +
      "AFDAAABQwAAAUMAAAFDAAABQwAAAUMAAAFDAAABQwM3MzD3NzMw9zczMPc3MzD3NzMw9zczMPc3MzD3NzMw9zczMPc3MzD3NzMw9" +
      "zczMPc3MzD3NzMw9zczMPc3MzD3NzMw9zczMPc3MzD3NzMw9zczMPc3MzD3NzMw9zczMPc3MzD3NzMw9zczMPc3MzD3NzMw9zczM" +
      "Pc3MzD3NzMw9AOB/xwDgf8cA4H/HAOB/xwDgf8cA4H/HAOB/xwDgf8cA4H/HAOB/xwDgf8cA4H/HAOB/xwDgf8cA4H/HAOB/xwDg" +
      "f8cA4H/HAOB/xwDgf8cA4H/HAOB/xwDgf8cA4H/HAOB/xwDgf8cA4H/HAOB/xwDgf8cA4H/HAOB/xwDgf8c=",
    sha256: {
      Q8_0: "af01e97dff1902bcb5c17846ed8941eedc4ee5e11afcaa3935e7886b27aaca87",
      Q4_0: "ff1132ae7e398e2517f76b8129da966c77a522b7f74719daea1dec9bad92f65f",
      Q4_1: "f7851989e47dd099c94c0afdb0b84b69795c506fd7917b4ba3520961910768eb",
      Q5_0: "4c758fa6da422db9ac25051fe712e6be104147724d9c418220fd41e19366271a",
      Q5_1: "ce082c873159ca0d0966c20bdd03738fa19c3c3cbf80b62c20666bba224d94f1",
    },
  },
  {
    what: "values landing exactly on k+0.5 steps after scaling by a power-of-two scale (round half away from zero in Q8_0; trunc(x+8.5)/(x+16.5) in Q4_0/Q5_0)",
    floats:
      "AAD+QgAAeMEAAGjBAABYwQAASMEAADjBAAAowQAAGMEAAAjBAADwwAAA0MAAALDAAACQwAAAYMAAACDAAADAvwAAAL8AAAA/AADA" +
      "PwAAIEAAAGBAAACQQAAAsEAAANBAAADwQAAACEEAABhBAAAoQQAAOEEAAEhBAABYQQAAaEEAAADBAAB4wAAAaMAAAFjAAABIwAAA" +
      "OMAAACjAAAAYwAAACMAAAPC/AADQvwAAsL8AAJC/AABgvwAAIL8AAMC+AAAAvgAAAD4AAMA+AAAgPwAAYD8AAJA/AACwPwAA0D8A" +
      "APA/AAAIQAAAGEAAAChAAAA4QAAASEAAAFhAAABoQAAAgEEAAPjAAADowAAA2MAAAMjAAAC4wAAAqMAAAJjAAACIwAAAcMAAAFDA" +
      "AAAwwAAAEMAAAOC/AACgvwAAQL8AAIC+AACAPgAAQD8AAKA/AADgPwAAEEAAADBAAABQQAAAcEAAAIhAAACYQAAAqEAAALhAAADI" +
      "QAAA2EAAAOhAAAD+wgAAeMIAAGjCAABYwgAASMIAADjCAAAowgAAGMIAAAjCAADwwQAA0MEAALDBAACQwQAAYMEAACDBAADAwAAA" +
      "AMAAAABAAADAQAAAIEEAAGBBAACQQQAAsEEAANBBAADwQQAACEIAABhCAAAoQgAAOEIAAEhCAABYQgAAaEI=",
    sha256: {
      Q8_0: "cab39023e76123eb3b2a4dd28740d21f6f705c8d0eb6e96ce444c8a98cf4a003",
      Q4_0: "8e85c4430beb8c1e08f6e405992cfb6bcf20bd94dad2979b7d43abcc70d41f17",
      Q4_1: "467834a878b494e737cbb0feb978d6f8e820e171d94f83b9fd231764d21dca88",
      Q5_0: "944b2c0848dd2794972596eeb129f023379e6a093efc5b82c0dfd1b5ffb0f1bc",
      Q5_1: "863e6b56d49e6c4f3b620f274c6c0e2c17f876e78712449cfcf759b4c8256fb1",
    },
  },
  {
    what: "block0: +5 before -5 (equal magnitude, first wins); block1: -5 before +5; block2: single negative maximum at the end; block3: all negative",
    floats:
      "8bI+PqTlkr60Bpg9AACgQH66db1fp4m+tOuJPuyG4b6FLgE/iTPGOxGSJTqmBgC9gg77PQomz76c+lm+FGczvjHcuT0hSU89fBuH" +
      "PN9JPb4AAKDAnwn9vv22+z2LGPM+fj4rvYcJjr6qQX8+0R/Mvg/XnL5Y/Sm+0bY1v04kwb46ld69+Wx9PgAAoMDC4P2+EzPuvvy5" +
      "Vb4ZJKY9GTkbPiYsx77Mvy2+07VCviGGoL7LnCK/u4ZwPsu4Ob6PE1y+pNyQPuJE/D0AAKBAOawBviU7CT6STgU+oBnpPi+57r4R" +
      "r9o8N7R8vrw5F74rchY+wo65vfRPMD68UBk97LaKvjYn+b5ATKy+UfrgvnMlJ7/7lii+eGhlPuKudD6TuPe9wzT7vap9vD4jACO+" +
      "62U8PZZlPD6NFiA+FyGXPg+VWL0NU/s9Aibcvqw/CDxefTO9+oMsPkWKQz0r1ZK9Ji4pvfjirb4Taae9a8rVPpHBgb6GbNc9W6qK" +
      "vtymT74AABzBi2I5v6XKk75hqX2/SCuXvrX6gr/a5Qm+Fu0Kv/5ndL4jVge/Uvciv4NSIL+VeZu8nWV8v9PO1r/zB7++QPR6v9RH" +
      "GL60e0a+3OXGvynEob7D96G/TPmIv4GDCL8WMpO9eUQ2v3JVPb9bZWW/Vp5Lvylwz77lSWi/Fsy/vhKVEb8=",
    sha256: {
      Q8_0: "ed9da9cb3c79c9ead38f2e140bfe231772bb71324e317c8e813da8f05368fe9e",
      Q4_0: "bf0d40528d1a1cc0e540a2c6988b21cd9350d5987bc1289e51e67096fae18705",
      Q4_1: "701639b278843b4500feefdbb2d77259a164fbd6d3414c82db4b0fad5c9b02ae",
      Q5_0: "058e1fc05af9e79aafbca2ea3f809c2b31fb257ffb7528bee7f7f1adddc04c29",
      Q5_1: "d56b929464607d4ba5ea27f9d5eda3d1af380332d37645c0ea5c76631f38286f",
    },
  },
  {
    what: "Q8_0 scale d falls exactly between two binary16 values (ties to even), on a subnormal binary16, or at half of the smallest subnormal; the reciprocal used for the quants is taken from the unrounded binary32 scale",
    floats:
      "ABSgwAAb2MEAEIC/ABEIQgAQgMLAH/5CABSgwQAYwEEAEhDCABMYQgARiMGAEhTCAB5wQYASFEKAGUxCABYwQgAWMEIAGEBBABCA" +
      "QQAWsMKAHGTCABCAwAARiEIAEABBgB50woAbXMIAFajBABnIwQATGMIAHejBABhAQIAQBEKAT1TCADOIwUBNzsKAScTCADYQwUBf" +
      "/kIAMIDCADmYQQAwgMAASMDAADYQQgA5GEIAMABBgD2kwgBIQMIATtDBAFRgwcBFukIAOZhBADMIwgBFuMEAVGDBAEvIQQBOUMIA" +
      "MADAwDOKQgA8IMEAV+hBADMIQgBIQMCAOhzCADkYQgAAOLgAALA3AACIOAAADDgAAIC2AAD+OAAAmLcAADQ4AADQNwAAPLgAANC3" +
      "AACItwAACLgAABQ4AAAAtgAANLgAAIA2AAD4twAAwLYAABg4AADYtwAAAAAAAFi4AAAANgAAgDUAAHC4AADAtwAALDgAAGC3AAAw" +
      "NwAAMDgAAGi4AACctQAAcDYAAKg1AAAuNgAAvTYAgD43AACBtgAAFrYAAPC1AADYtQAAsTYAAOQ1AABSNgAAzLUAAHC2AADVNgAA" +
      "8LUAAJ+2AAB2tgAAwDQAANW2AAC0tQAAarYAAPA2AABktgAAcDUAAIe2AABYtQAA2LUAAMY2AADktQAAwDQ=",
    sha256: {
      Q8_0: "1c38c012e4c10c95cc6f3a513405ff8be9289785a280a7f865cfea257740423b",
      Q4_0: "a9d7a03598e4a91dbf1e0e5e8706cfbe0c16b5df2099fd968668fd1ab617aab7",
      Q4_1: "7af78f6d7d06487b4745f9f16eb86c56ec6da0a6f5a4329213ef109bd9dfa807",
      Q5_0: "39a5358a096a9eeacdc541937a07a5d2ef4b5baedb8182dfb4a87b716066623c",
      Q5_1: "7295eb2c6af5f2d127f7eed7febbb0761d94cce0c20e51e203a8689e19147f66",
    },
  },
] as const;

const QUANTIZERS: readonly [string, () => Promise<Quantizer>][] = [
  ["javascript", async () => quantizerJavascript],
  ["wasm", loadQuantizerWasm],
];

const floatsOf = (text: string): Float32Array<ArrayBuffer> =>
  new Float32Array((decodeBase64(text) ?? new Uint8Array(0)).slice().buffer);

function encode(
  quantizer: Quantizer,
  type: (typeof QUANT_TYPES)[number],
  values: Float32Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> {
  const into = new Uint8Array((values.length / QUANT_ELEMENTS) * QUANT_BYTES[type]);
  quantizer.encode(type, values, into);
  return into;
}

describe.each(QUANTIZERS)("quantised blocks, %s", (_name, load) => {
  it("proves itself", async () => {
    expect(provesQuantizer(await load())).toBe(true);
  });

  it.each(GGML)("encodes to ggml's bytes: $what", async ({ floats, sha256 }) => {
    const quantizer = await load();
    const values = floatsOf(floats);
    for (const type of QUANT_TYPES) {
      const found = createHash("sha256")
        .update(encode(quantizer, type, values))
        .digest("hex");
      expect(found, type).toBe(sha256[type]);
    }
  });

  it("rounds halves away from zero and 0.49999997 down", async () => {
    // The largest magnitude is 127, so the scale is 1 and each quant is the rounded value.
    const values = new Float32Array(QUANT_ELEMENTS);
    values.set([127, 0.5, -0.5, 1.5, -1.5, Math.fround(0.49999997), -126.5]);
    const block = encode(await load(), "Q8_0", values);
    expect([...new Int8Array(block.buffer, 2, 7)]).toEqual([127, 1, -1, 2, -2, 0, -127]);
  });

  it.each([
    ["a NaN beside usable values", Number.NaN, 1],
    ["an infinite value", Number.NEGATIVE_INFINITY, 1],
    ["a scale that rounds to infinity", 65520 * 127, 1],
    ["the largest finite scale", 65519 * 127, 0],
  ])("counts the blocks with %s", async (_what, value, count) => {
    const values = new Float32Array(3 * QUANT_ELEMENTS).fill(0.5);
    values[QUANT_ELEMENTS + 5] = value;
    expect((await load()).encode("Q8_0", values, new Uint8Array(3 * 34))).toBe(count);
  });

  it("decodes values that are too small for a scale to zero", async () => {
    const quantizer = await load();
    for (const type of QUANT_TYPES) {
      const back = new Float32Array(QUANT_ELEMENTS).fill(1);
      quantizer.decode(type, encode(quantizer, type, new Float32Array(QUANT_ELEMENTS).fill(1e-42)), back);
      expect(new Set(back), type).toEqual(new Set([0]));
    }
  });
});

describe("both quantizers", () => {
  const value = fc.oneof(
    fc.float({ noNaN: true }),
    fc.constantFrom(0, -0, 1, -1, 65504, 65519, 65520, 65535, 8321040, 1e-30, Number.NaN),
  );

  it("agree on every byte and every bit, also for more blocks than one call of the kernel takes", async () => {
    const wasm = await loadQuantizerWasm();
    const run = fc.array(value, { minLength: QUANT_ELEMENTS, maxLength: QUANT_ELEMENTS });
    fc.assert(
      fc.property(run, fc.constantFrom(...QUANT_TYPES), fc.constantFrom(1, 513), (values, type, times) => {
        const floats = Float32Array.from(
          { length: times * QUANT_ELEMENTS },
          (_, i) => values[i % QUANT_ELEMENTS] as number,
        );
        const blocks = encode(wasm, type, floats);
        expect(wasm.encode(type, floats, blocks)).toBe(quantizerJavascript.encode(type, floats, blocks));
        expect(Buffer.compare(blocks, encode(quantizerJavascript, type, floats))).toBe(0);
        const a = new Float32Array(floats.length);
        const b = new Float32Array(floats.length);
        wasm.decode(type, blocks, a);
        quantizerJavascript.decode(type, blocks, b);
        expect(a).toEqual(b);
      }),
    );
  });
});
