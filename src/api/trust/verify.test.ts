import { expect, test } from "vitest";
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
