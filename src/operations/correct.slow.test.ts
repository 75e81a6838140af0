import { expect, test } from "vitest";
import { makeContent } from "../../test/builders/vault-content.ts";
import { encodeHex } from "../base/text.ts";
import { memorySink, memorySource } from "../bytes/memory.ts";
import { parityGrid } from "../model/parity/avec.ts";
import { nativeEngine } from "../platform/node/engine/native.ts";
import { generateSidecar } from "./correct.ts";

/** SHA-256 of the sidecar that the reference's own program wrote. */
const REFERENCE = "18b9624bf1e9755a2f385be5364c5a0b09fa9afa7f1a92a020e79bae99af05d1";

test("generateSidecar() writes the reference's bytes: two windows of 64 MiB", async () => {
  const engine = await nativeEngine();
  const data = makeContent({ kind: "sha256ctr", seed: "shbig", len: 67_112_961 });
  const sink = memorySink("sidecar");
  await generateSidecar(memorySource(data, "file"), sink, { engine, grid: parityGrid(5) });
  await sink.commit();
  expect(encodeHex(await engine.digest("sha256", sink.published as Uint8Array<ArrayBuffer>))).toBe(REFERENCE);
});
