import { expect, test } from "vitest";
import { buildSafetensors } from "../../../test/builders/safetensors.ts";
import { smallSafetensors } from "../../../test/cli/small-models.ts";
import * as node from "../../platform/node/index.ts";

test("digests are taken as text of JSON, which no error repeats", async () => {
  const { digests = [] } = await node.verify(smallSafetensors(), { digest: "sha256" });
  const text = JSON.stringify(digests);
  expect(await node.verify(smallSafetensors(), { digests: text })).toMatchObject({ ok: true });
  const broken = await node.verify(smallSafetensors(), { digests: text.slice(0, -1) }).catch((error: Error) => error);
  expect(broken).toMatchObject({ code: "usage/digest-list", message: expect.stringContaining('"digests"') });
  expect(JSON.stringify(broken)).not.toContain(String(digests[0]?.hex));
});

test("zeros that begin in the middle of a tensor and go to the end of the file are told; a tensor of zeros is not", async () => {
  const filled = new Uint8Array(2 << 20).fill(1);
  const model = (tail: number): Uint8Array<ArrayBuffer> => {
    const second = filled.slice();
    second.fill(0, second.byteLength - tail);
    return buildSafetensors([
      { name: "a", dtype: "U8", shape: [filled.byteLength], bytes: filled },
      { name: "b", dtype: "U8", shape: [second.byteLength], bytes: second },
    ]);
  };
  const told = async (tail: number): Promise<readonly string[]> =>
    (await node.verify(model(tail))).findings.map(({ severity, code, at }) => `${severity} ${code} ${at.byteLength}`);
  expect(await told(3 << 19)).toEqual([`warning format/zeros ${3 << 19}`]);
  expect(await told(1 << 19)).toEqual([]);
  expect(await told(2 << 20)).toEqual([]);
});
