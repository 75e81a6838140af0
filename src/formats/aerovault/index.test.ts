import { expect, it } from "vitest";
import { craftVault1 } from "../../../test/builders/vault1.ts";
import { concatBytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { legacyVersion } from "./index.ts";

it("legacyVersion() recognises versions 1 and 2 by their first bytes, and nothing else", async () => {
  const zip = await craftVault1([{ path: "a", bytes: encodeUtf8("x") }]);
  expect(legacyVersion(zip)).toBe(1);
  expect(legacyVersion(zip.slice(0, 64))).toBe(1);
  expect(legacyVersion(encodeUtf8("AEROVAULT2\u0003"))).toBe(2);
  expect(legacyVersion(encodeUtf8("AEROVAULT3\u0003"))).toBeUndefined();
  const other = await craftVault1([{ path: "a", bytes: encodeUtf8("x") }], { meta: null });
  expect(legacyVersion(other)).toBeUndefined();
  // A ZIP that only mentions the name is not a vault.
  const mention = await craftVault1([{ path: "b__aerovault_meta.json", bytes: encodeUtf8("x") }], { meta: null });
  expect(legacyVersion(mention)).toBeUndefined();
  expect(legacyVersion(concatBytes([other.slice(0, 30), encodeUtf8("__aerovault_meta.json")]))).toBeUndefined();
});
