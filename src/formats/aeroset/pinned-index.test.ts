import { expect, test } from "vitest";
import { buildSet, countedFolder, SET_NAME } from "../../../test/builders/aeroset.ts";
import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { memorySource } from "../../bytes/memory.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { openAeroset } from "./read.ts";

const engine = portableEngine();
const other = buildSet({ globalIndex: (tensors) => tensors.slice(1) }).get("index.aero") as Bytes;
test.each([
  ["another one", () => other],
  ["with something behind it", (index: Bytes) => concatBytes([index, new Uint8Array(8)])],
])("an index that differs from the pinned one is not used: %s", async (_, change) => {
  const files = buildSet();
  files.set("index.aero", change(files.get("index.aero") as Bytes));
  const folder = countedFolder(files);
  const source = memorySource(files.get(SET_NAME) as Bytes, SET_NAME);
  await expect(openAeroset(source, { engine, limits: {}, resolver: folder })).rejects.toMatchObject({
    name: "IntegrityError",
    code: "integrity/aeroset.sha256",
    at: { source: SET_NAME, path: "global_tidx.sha256" },
  });
  expect(folder.opened.map(({ source }) => source.closeCount)).toEqual([1]);
});

test("an index is hashed in memory, up to a limit", async () => {
  const files = buildSet();
  const opening = openAeroset(memorySource(files.get(SET_NAME) as Bytes, SET_NAME), {
    engine,
    limits: { aeroset: { indexBytes: 10 } },
    resolver: countedFolder(files),
  });
  await expect(opening).rejects.toMatchObject({ code: "limit/aeroset.index-bytes" });
});
