import { describe, expect, test } from "vitest";
import { float32Tensor } from "../../../test/builders/tensors.ts";
import type { ModelContent, WriteOptions } from "../../model/format.ts";
import { Metadata, stringValue } from "../../model/metadata.ts";
import { planNames } from "./index.ts";
import { planAeroset } from "./plan.ts";

const uuid = new Uint8Array(16).fill(7);

/** Nine tensors of 16 bytes: with alignment 16 and shards of 32 bytes they give five shards. */
function nine(chain: ModelContent["chain"] = []): ModelContent {
  const tensors = Array.from({ length: 9 }, (_, i) => float32Tensor(`t${i}`, [i, i, i, i]));
  const metadata = new Metadata([{ key: "general.name", value: stringValue("nine") }]);
  return { metadata, tensors, chain };
}

const plan = (options: Partial<WriteOptions> = {}, content = nine()) =>
  planAeroset(content, {
    name: "model.aeroset.json",
    uuid,
    align: 16,
    maxShardBytes: 32,
    maxPartShards: 2,
    ...options,
  });

describe("planAeroset()", () => {
  test("cuts the whole model into shards and groups consecutive ones", () => {
    const { files, primary, set } = plan();
    expect(files.map(({ name }) => name)).toEqual([
      "part-000.aero",
      "part-001.aero",
      "part-002.aero",
      "index.aero",
      "model.aeroset.json",
    ]);
    expect(primary).toBe("model.aeroset.json");
    expect(set.parts.map(({ image }) => image.shardIds)).toEqual([[0, 1], [2, 3], [4]]);
    expect(set.parts[1]?.image.rows.map(({ name, shardId, dataOff }) => [name, shardId, dataOff])).toEqual([
      ["t4", 2, 0],
      ["t5", 2, 16],
      ["t6", 3, 0],
      ["t7", 3, 16],
    ]);
    expect(set.parts[1]?.image.layout.chunks.map(({ fourcc, name }) => [fourcc, name])).toEqual([
      ["IHSH", "control.integrity"],
      ["MJSN", "meta.json"],
      ["MMSG", "manifest"],
      ["TIDX", "tensors"],
      ["PHSH", "weights.shard2.phsh"],
      ["PHSH", "weights.shard3.phsh"],
      ["WTSH", "weights.shard2"],
      ["WTSH", "weights.shard3"],
    ]);
  });

  test("lists every tensor in the index, in order, with global numbers and no shard", () => {
    const { index } = plan().set;
    expect(index.image.rows.map(({ name, shardId }) => `${name} ${shardId}`)).toEqual(
      Array.from({ length: 9 }, (_, i) => `t${i} ${Math.floor(i / 2)}`),
    );
    expect(index.image.shardIds).toEqual([]);
    expect(index.image.layout.chunks.map(({ fourcc }) => fourcc)).toEqual(["IHSH", "MJSN", "MMSG", "TIDX"]);
  });

  test("uses one uuid for all files, and another for every set that gives none", () => {
    const { set } = plan({ uuid: undefined });
    const uuids = [...set.parts, set.index].map(({ image }) => image.uuid);
    for (const other of uuids) expect(other).toBe(uuids[0]);
    expect(plan({ uuid: undefined }).set.index.image.uuid).not.toEqual(uuids[0]);
    expect([set.uuid, plan().set.uuid]).toEqual(["random", "given"]);
  });

  test("uses the specification's sizes if none are given", () => {
    const { set } = planAeroset(nine(), { name: "model.aeroset.json" });
    expect(set.parts.map(({ image }) => [image.shardIds, image.pageBytes])).toEqual([[[0], 4 << 20]]);
    const many = planAeroset(nine(), { name: "m.aeroset.json", maxShardBytes: 1 });
    expect(many.set.parts.map(({ image }) => image.shardIds.length)).toEqual([4, 4, 1]);
  });

  test("has no part for a model without tensors", () => {
    const { files } = plan({}, { ...nine(), tensors: [] });
    expect(files.map(({ name }) => name)).toEqual(["index.aero", "model.aeroset.json"]);
  });

  test("cuts like the set that the content comes from, unless the caller wants another cut", () => {
    const facts = { uuid: "ab".repeat(16), shards: [1, 5, 3], parts: [1, 2] };
    const content = nine([
      { format: "safetensors", facts: {} },
      { format: "aeroset", facts },
    ]);
    const again = { uuid: undefined, maxShardBytes: undefined, maxPartShards: undefined };
    const { parts, index } = plan(again, content).set;
    expect(parts.map(({ image }) => image.shards.map(({ tensorCount }) => tensorCount))).toEqual([[1], [5, 3]]);
    expect(index.image.uuid).toEqual(new Uint8Array(16).fill(0xab));
    expect(plan({ ...again, maxPartShards: 4 }, content).set.parts).toHaveLength(1);
    const damaged = nine([{ format: "aeroset", facts: { ...facts, shards: [1, 5, 4] } }]);
    expect(plan(again, damaged).set.parts.map(({ image }) => image.shards.length)).toEqual([1]);
  });

  test.each([
    ["usage/aeroset.part-shards", { maxPartShards: 0 }],
    ["usage/aeroset.part-shards", { maxPartShards: 1.5 }],
    ["usage/aeroset.base-url", { baseUrl: "models/llama" }],
    ["usage/aeroset.base-url", { baseUrl: "file:///etc" }],
    ["usage/aeroset.base-url", { baseUrl: "https://user:secret@host/" }],
    ["usage/aeroset.base-url", { baseUrl: "https://host/m?token=secret" }],
    ["usage/aero.uuid", { uuid: new Uint8Array(3) }],
  ])("refuses with %s: %o", (code, options) => {
    expect(() => plan(options)).toThrowError(expect.objectContaining({ code }));
    expect(() => plan(options)).not.toThrowError(/secret/);
  });
});

test("planNames() begins with the stem for any JSON except model.aeroset.json", () => {
  expect([planNames("model.aeroset.json").part(0), planNames("model.aeroset.json").index]).toEqual([
    "part-000.aero",
    "index.aero",
  ]);
  expect([planNames("x.aeroset.json").part(12), planNames("x.aeroset.json").index]).toEqual([
    "x-part-012.aero",
    "x-index.aero",
  ]);
  expect(planNames("model.aeroset.json").part(1000)).toBe("part-1000.aero");
  expect(planNames("out").part(1)).toBe("out-part-001.aero");
});
