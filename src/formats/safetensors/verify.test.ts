import { describe, expect, test } from "vitest";
import { buildSafetensors, patternBytes, rawSafetensors } from "../../../test/builders/safetensors.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import type { Bytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { VerifyLevel } from "../../model/format.ts";
import { openSource } from "../../open.ts";
import { type Report, verify } from "../../operations/verify.ts";
import { portableEngine } from "../../primitives/portable.ts";

const engine = portableEngine();

async function report(bytes: Bytes, level: VerifyLevel): Promise<Report> {
  return verify(await openSource(memorySource(bytes, "file"), { engine }), { level, engine });
}

const BOOLS = buildSafetensors([
  { name: "n", dtype: "U8", shape: [2], bytes: Uint8Array.of(7, 7) },
  { name: "flags", dtype: "BOOL", shape: [4], bytes: Uint8Array.of(0, 1, 2, 255) },
]);

describe("verifySafetensors()", () => {
  test("counts what it checked, and reads data only at level full, and only types with a rule", async () => {
    const bytes = buildSafetensors([
      { name: "a", dtype: "U8", shape: [5], bytes: patternBytes(5) },
      { name: "b", dtype: "BOOL", shape: [3], bytes: Uint8Array.of(0, 1, 1) },
    ]);
    const headerBytes = bytes.byteLength - 8 - 8;
    expect(await report(bytes, "control")).toEqual({
      ok: true,
      level: "control",
      weights: "not-compared",
      checked: { tensors: 2, headerBytes },
      findings: [],
    });
    expect((await report(bytes, "full")).checked).toEqual({ tensors: 2, headerBytes, bytes: 3 });
  });

  test("warns about a boolean that is neither 0 nor 1, once per tensor, at its byte", async () => {
    const { ok, findings } = await report(BOOLS, "full");
    expect(ok).toBe(true);
    expect(findings).toEqual([
      expect.objectContaining({
        severity: "warning",
        code: "format/safetensors.bool-value",
        name: "flags",
        at: { source: "file", offset: BOOLS.byteLength - 2, path: '"flags"' },
      }),
    ]);
    expect((await report(BOOLS, "quick")).findings).toEqual([]);
  });

  test("notes a header that is not padded", async () => {
    const { findings } = await report(rawSafetensors("{}"), "quick");
    expect(findings).toEqual([
      expect.objectContaining({ severity: "note", code: "format/safetensors.header-padding" }),
    ]);
  });

  test("reports a tensor that cannot be read instead of throwing", async () => {
    const source = countingSource(memorySource(BOOLS, "file"));
    const opened = await openSource(source, { engine });
    await source.close();
    const { ok, findings } = await verify(opened, { level: "full", engine });
    // The opening read is still in memory, so its bytes can be checked.
    expect(ok).toBe(true);
    expect(findings).toHaveLength(1);
    await opened.container.close();
    const closed = await verify(opened, { level: "full", engine });
    expect(closed.findings.map(({ code, name }) => [code, name])).toEqual([["source/closed", "flags"]]);
  });
});
