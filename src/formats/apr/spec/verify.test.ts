import { describe, expect, it } from "vitest";
import { aprBlocks, type BuiltFile, buildApr, literalBlock } from "../../../../test/builders/apr.ts";
import { loadFixture } from "../../../../test/support/fixtures.ts";
import type { Bytes } from "../../../base/bytes.ts";
import { memorySource } from "../../../bytes/memory.ts";
import type { VerifyLevel } from "../../../model/format.ts";
import { openSource } from "../../../open.ts";
import { type Report, verify } from "../../../operations/verify.ts";
import { portableEngine } from "../../../primitives/portable.ts";

const engine = portableEngine();

async function report(bytes: Bytes, level: VerifyLevel = "full"): Promise<Report> {
  return verify(await openSource(memorySource(bytes, "m.apr"), { engine }), { level, engine });
}

const errorsOf = ({ findings }: Report): string[] =>
  findings.filter(({ severity }) => severity === "error").map(({ code }) => code);
const check = async (file: BuiltFile): Promise<string[]> => errorsOf(await report(buildApr(file)));
const data = Uint8Array.of(1, 2, 3, 4);

describe("verifySpec", () => {
  it("finds nothing wrong with a sound file, and compares its weights", async () => {
    const sound = await report(loadFixture("apr", "every-type"));
    expect(sound).toMatchObject({ ok: true, findings: [], weights: "compared", checked: { tensors: 15 } });
  });

  it("reports every changed bit, wherever it is", async () => {
    const sound = loadFixture("apr", "one-tensor");
    for (let i = 32; i < sound.byteLength; i++) {
      const damaged = sound.slice();
      damaged[i] = (damaged[i] as number) ^ 0x10;
      const outcome = await report(damaged).then(errorsOf, (error: { code: string }) => [error.code]);
      expect(outcome.length, `byte ${i}`).toBeGreaterThan(0);
      const place = i - (sound.byteLength - 16);
      // The CRC itself, the magic at the end, the length: each has its own code.
      if (place >= 0) {
        const code = place < 4 ? "integrity/apr.crc" : place < 8 ? "format/apr.footer" : "format/apr.file-size";
        expect(outcome).toContain(code);
      } else if (i >= 150) expect(outcome).toContain("integrity/apr.crc");
    }
  });

  it("finds a byte after the footer and bytes in the padding", async () => {
    const sound = buildApr({
      tensors: [
        { name: "a", data },
        { name: "b", data },
      ],
    });
    expect(errorsOf(await report(new Uint8Array([...sound, 0])))).toContain("format/apr.footer");
    const strange = sound.slice();
    strange[sound.byteLength - 30] = 1;
    const { findings } = await report(strange);
    expect(findings.map(({ code }) => code)).toEqual(
      expect.arrayContaining(["integrity/apr.crc", "format/apr.padding"]),
    );
  });

  it.each<[string, BuiltFile, string]>([
    [
      "required keys that are missing",
      { metadata: '{"apr_version":"2.0.0","model_type":1}' },
      "format/apr.required-key",
    ],
    [
      "an architecture that is text",
      { metadata: '{"apr_version":"2.0.0","model_type":"t","architecture":"x"}' },
      "format/apr.required-key",
    ],
    [
      "a key twice",
      { metadata: '{"apr_version":"2.0.0","model_type":"t","architecture":{},"architecture":{}}' },
      "format/apr.duplicate-key",
    ],
    ["data_offset off the grid", { dataOffset: 126 }, "format/apr.data-offset"],
    ["data_offset inside the index", { dataOffset: 64 }, "format/apr.data-offset"],
    [
      "tensors that share bytes",
      {
        tensors: [
          { name: "a", data: new Uint8Array(64) },
          { name: "b", data, offset: 60 },
        ],
      },
      "format/apr.overlap",
    ],
    [
      "a tensor off its alignment",
      {
        align: 32,
        tensors: [
          { name: "a", data },
          { name: "b", data },
        ],
      },
      "format/apr.alignment",
    ],
  ])("finds %s", async (_, file, code) => {
    expect(await check(file)).toContain(code);
  });

  it("accepts tensors on multiples of 32 if the flag says so", async () => {
    expect(
      await check({
        flags: 4,
        align: 32,
        tensors: [
          { name: "a", data },
          { name: "b", data },
        ],
      }),
    ).toEqual([]);
  });

  it("finds blocks that were never LZ4 under a CRC that is right", async () => {
    const stored = aprBlocks(literalBlock(data), Uint8Array.of(0x40, 1));
    const file = { flags: 3, tensors: [{ name: "lie", dims: [8], data: stored, rawSize: 8, flags: 1 }] };
    const { findings } = await report(buildApr(file));
    expect(findings).toMatchObject([{ severity: "error", code: "format/apr.block", name: "lie" }]);
  });

  it("looks at the footer, and not at the weights, below the full level", async () => {
    const damaged = buildApr({ tensors: [{ name: "a", data: new Uint8Array(100_000) }] });
    damaged[60_000] = 1;
    expect(errorsOf(await report(damaged, "quick"))).toEqual([]);
    expect((await report(damaged, "control")).findings.map(({ code }) => code)).toEqual([
      "integrity/apr.no-control-digest",
    ]);
    expect(errorsOf(await report(damaged, "full"))).toEqual(["integrity/apr.crc"]);
    damaged[damaged.byteLength - 9] = 0;
    expect(errorsOf(await report(damaged, "quick"))).toEqual(["format/apr.footer"]);
  });
});
