import { describe, expect, test } from "vitest";
import {
  type BuiltSet,
  buildSet,
  type CountedFolder,
  countedFolder,
  SET_NAME,
  type SetJson,
  setTensorBytes,
} from "../../../test/builders/aeroset.ts";
import { drain } from "../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../test/support/counting-source.ts";
import type { Bytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import { memorySource } from "../../bytes/memory.ts";
import type { Resolver } from "../../bytes/resolver.ts";
import { openSource } from "../../open.ts";
import { portableEngine } from "../../primitives/portable.ts";
import type { SetModel } from "./model.ts";
import { aerosetMembers, openAeroset } from "./read.ts";

const engine = portableEngine();

function openFiles(files: ReadonlyMap<string, Bytes>, resolver: Resolver, label = SET_NAME): Promise<SetModel> {
  return openAeroset(memorySource(files.get(SET_NAME) as Bytes, label), { engine, limits: {}, resolver });
}

async function openBuilt(options: BuiltSet = {}): Promise<{ model: SetModel; folder: CountedFolder }> {
  const files = buildSet(options);
  const folder = countedFolder(files);
  return { model: await openFiles(files, folder), folder };
}

const namesOf = (folder: CountedFolder): string[] => folder.opened.map(({ name }) => name);

describe("parts", () => {
  test("are not touched by opening, listing and describing", async () => {
    const { model, folder } = await openBuilt();
    expect(model.tensors.length).toBe(5);
    expect(model.parts.map(({ label, byteLength }) => [label, byteLength > 0])).toEqual([
      [SET_NAME, true],
      ["index.aero", true],
      ["part-000.aero", true],
      ["part-001.aero", true],
      ["part-002.aero", true],
    ]);
    expect(namesOf(folder)).toEqual(["index.aero"]);
  });

  test("are opened once, by the first read, however many read at the same time", async () => {
    const { model, folder } = await openBuilt();
    const reads = ["t2", "t3", "t2"].map((name) => model.tensor(name).bytes());
    expect(await Promise.all(reads)).toEqual([setTensorBytes(2), setTensorBytes(3), setTensorBytes(2)]);
    expect(namesOf(folder)).toEqual(["index.aero", "part-001.aero"]);
  });

  test("are closed with the model, and stay closed", async () => {
    const files = buildSet();
    const folder = countedFolder(files);
    const json = countingSource(memorySource(files.get(SET_NAME) as Bytes, SET_NAME));
    const model = await openAeroset(json, { engine, limits: {}, resolver: folder });
    await model.tensor("t0").bytes();
    const late = model.tensor("t4").bytes(); // it is still opening its part when the model is closed
    late.catch(() => undefined);
    await model.close();
    expect(json.closeCount).toBe(1);
    expect(folder.opened.map(({ source }) => source.closeCount)).toEqual([1, 1, 1]);
    await expect(model.tensor("t2").bytes()).rejects.toMatchObject({ code: "source/closed" });
    expect(namesOf(folder)).not.toContain("part-001.aero");
  });

  test("the beginning of a remote file is read once, whatever it holds", async () => {
    const { model, folder } = await openBuilt({ pages: "pages" });
    await model.tensor("t2").bytes();
    await model.tensor("t3").bytes();
    expect(folder.opened.map(({ name, source }) => [name, source.calls.length])).toEqual([
      ["index.aero", 1],
      ["part-001.aero", 1],
    ]);
  });

  test("are announced with size and digest if the JSON has both", async () => {
    const { model, folder } = await openBuilt({
      json: (json) => ({ ...json, parts: json.parts.map((part, i) => (i === 0 ? { ...part, sha256: null } : part)) }),
    });
    await Promise.all([model.tensor("t0").bytes(), model.tensor("t2").bytes()]);
    const pinned = new Map(folder.opened.map(({ name, options }) => [name, options.pinned]));
    expect(pinned.get("part-000.aero")).toBeUndefined();
    expect(pinned.get("part-001.aero")).toEqual({
      byteLength: model.parts[3]?.byteLength,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  test("a reader that gives up does not end the opening for the others", async () => {
    const { model } = await openBuilt();
    const controller = new AbortController();
    const first = model.tensor("t0").bytes({ signal: controller.signal });
    const second = model.tensor("t1").bytes();
    controller.abort();
    await expect(first).rejects.toMatchObject({ name: "AbortError" });
    expect(await second).toEqual(setTensorBytes(1));
  });

  test("a missing one affects only its tensors, and is found once it is there", async () => {
    const files = buildSet();
    const part = files.get("part-001.aero") as Bytes;
    files.delete("part-001.aero");
    const model = await openFiles(files, countedFolder(files));
    expect(await model.tensor("t4").bytes()).toEqual(setTensorBytes(4));
    await expect(model.tensor("t2").bytes()).rejects.toMatchObject({
      code: "source/not-found",
      at: { source: SET_NAME, path: "parts[1].path" },
    });
    files.set("part-001.aero", part);
    expect(await model.tensor("t2").bytes()).toEqual(setTensorBytes(2));
  });
});

describe("finding a tensor in its part", () => {
  test.each(["local", "global"] as const)("works by name with %s numbers", async (ids) => {
    const { model } = await openBuilt({ ids });
    for (let i = 0; i < 5; i++) expect(await model.tensor(`t${i}`).bytes()).toEqual(setTensorBytes(i));
  });

  test.each(["local", "global"] as const)(
    "works by shard where the part has no index, with %s numbers",
    async (ids) => {
      const { model } = await openBuilt({ ids, partIndex: () => null });
      for (let i = 0; i < 5; i++) expect(await model.tensor(`t${i}`).bytes()).toEqual(setTensorBytes(i));
    },
  );

  test("is checked by the pages of a shard that no index of the part names", async () => {
    const { model, folder } = await openBuilt({ pages: "pages", partIndex: () => null });
    expect(await model.tensor("t3").rows(1, 3).bytes()).toEqual(setTensorBytes(3).slice(4, 12));
    expect(model.verificationOf(model.tensor("t3"))).toBe("pages");
    expect(namesOf(folder)).toEqual(["index.aero", "part-001.aero"]);
  });

  test.each([
    ["shape", { shape: [2, 2] }],
    ["dtype", { dtype: 9 }],
    ["data_len", { shape: [3], len: 12 }],
  ])("is refused if %s differs, naming both", async (_, change) => {
    const { model } = await openBuilt({
      globalIndex: (tensors) => tensors.map((tensor) => (tensor.name === "t2" ? { ...tensor, ...change } : tensor)),
    });
    await expect(model.tensor("t2").bytes()).rejects.toMatchObject({
      code: "format/aeroset.disagreement",
      message: expect.stringMatching(
        /the set's index has .* of (16|12) bytes, "part-001.aero" has F32 \[4\] of 16 bytes/,
      ),
    });
    expect(await model.tensor("t3").bytes()).toEqual(setTensorBytes(3));
  });

  test("is refused beyond the end of its shard", async () => {
    const { model } = await openBuilt({
      partIndex: () => null,
      globalIndex: (tensors) => tensors.map((tensor) => ({ ...tensor, off: 1 })),
    });
    await expect(model.tensor("t0").bytes()).rejects.toMatchObject({ code: "format/aeroset.tensor-bounds" });
  });

  test("is refused if the part has neither tensor nor shard", async () => {
    const { model } = await openBuilt({
      partIndex: () => null,
      json: (json) => {
        const [first, second, third] = json.parts as [SetJson["parts"][0], SetJson["parts"][0], SetJson["parts"][0]];
        return { ...json, parts: [{ ...first, shards: [0, 9, 1] }, second, third] };
      },
    });
    // Found by its number 1, although the JSON lists it third.
    expect(await model.tensor("t1").bytes()).toEqual(setTensorBytes(1));
    const local = await openBuilt({
      ids: "local",
      partIndex: () => null,
      json: (json) => ({ ...json, parts: json.parts.map((part) => ({ ...part, shards: [9, 8, ...part.shards] })) }),
    });
    await expect(local.model.tensor("t4").bytes()).rejects.toMatchObject({ code: "format/aeroset.missing-tensor" });
  });
});

describe("digests", () => {
  const damage = (files: Map<string, Bytes>, part: string): void => {
    const bytes = files.get(part) as Bytes;
    bytes[bytes.byteLength - 3] = (bytes.at(-3) as number) ^ 1;
  };

  test.each([
    [{ pages: "pages" }, "integrity/aero.page-hash"],
    [{ hashes: ["parts"] }, "integrity/aero.tensor-hash"],
    [{ hashes: ["index"] }, "integrity/aero.tensor-hash"],
    [{ hashes: ["index"], partIndex: () => null }, "integrity/aero.tensor-hash"],
  ] as const)("no damaged byte is handed out (%#)", async (options, code) => {
    const files = buildSet(options);
    damage(files, "part-002.aero");
    const model = await openFiles(files, countedFolder(files));
    await expect(model.tensor("t4").bytes()).rejects.toMatchObject({ code });
    expect(await model.tensor("t3").bytes()).toEqual(setTensorBytes(3));
  });

  const swapped = (options: BuiltSet): Promise<SetModel> => {
    const files = buildSet(options);
    const [first, second] = ["part-000.aero", "part-001.aero"].map((name) => files.get(name) as Bytes);
    files.set("part-000.aero", second as Bytes).set("part-001.aero", first as Bytes);
    return openFiles(files, countedFolder(files));
  };

  test.each([
    [{ hashes: ["index", "parts"], pages: "pages" }, "integrity/aero.tensor-hash"],
    [{ hashes: ["index"], pages: "pages", ids: "local" }, "integrity/aero.tensor-hash"],
    [{ hashes: ["index"], pages: "pages", partIndex: () => null }, "integrity/aero.tensor-hash"],
    [{ pages: "pages" }, "format/aeroset.other-part"],
    [{ ids: "local" }, "format/aeroset.other-part"],
    [{}, "format/aeroset.other-part"],
  ] as const)("parts that were swapped give no other tensor's bytes (%#)", async (options, code) => {
    const model = await swapped(options);
    for (const name of ["t0", "t1", "t2", "t3"]) {
      await expect(model.tensor(name).bytes()).rejects.toMatchObject({ code });
    }
    expect(await model.tensor("t4").bytes()).toEqual(setTensorBytes(4));
  });

  test("pages do not replace a digest that only the index has: the part may be of another version", async () => {
    const { model } = await openBuilt({
      pages: "pages",
      globalIndex: (tensors) => tensors.map((tensor) => ({ ...tensor, more: { hash_b3: "00".repeat(32) } })),
    });
    await expect(model.tensor("t0").rows(1, 2).bytes()).rejects.toMatchObject({ code: "integrity/aero.tensor-hash" });
    expect(model.verificationOf(model.tensor("t0"))).toBe("tensor");
  });

  test("nor one that both have: an attacker can copy the digest and make new pages", async () => {
    const files = buildSet({ hashes: ["index", "parts"], pages: "pages" });
    const flip = (tensor: number): Bytes => setTensorBytes(tensor).map((value) => value ^ 1);
    const theirs = buildSet({ hashes: ["index", "parts"], pages: "pages", weights: flip });
    for (const name of ["part-000.aero", "part-001.aero", "part-002.aero"]) files.set(name, theirs.get(name) as Bytes);
    const model = await openFiles(files, countedFolder(files));
    for (const name of ["t0", "t2", "t4"]) {
      await expect(model.tensor(name).bytes()).rejects.toMatchObject({ code: "integrity/aero.tensor-hash" });
      await expect(drain(model.tensor(name).source(), 0)).rejects.toMatchObject({ code: "integrity/aero.tensor-hash" });
    }
  });

  test("a part of another version is refused although it is sound in itself", async () => {
    const wrong = "00".repeat(32);
    const { model } = await openBuilt({
      hashes: ["parts"],
      globalIndex: (tensors) => tensors.map((tensor) => ({ ...tensor, more: { hash_b3: wrong } })),
    });
    await expect(model.tensor("t0").bytes()).rejects.toMatchObject({
      code: "integrity/aeroset.other-tensor",
      message: expect.stringContaining(wrong),
    });
  });
});

describe("the JSON", () => {
  test("a shard in no part: a warning on opening, an error for its tensors that names it", async () => {
    const { model } = await openBuilt({ json: (json) => ({ ...json, parts: json.parts.slice(0, 2) }) });
    expect(model.warnings.map(({ code }) => code)).toEqual(["format/aeroset.missing-shard"]);
    await expect(model.tensor("t4").bytes()).rejects.toMatchObject({
      code: "format/aeroset.missing-shard",
      message: expect.stringContaining("shard 4"),
    });
    expect(await model.tensor("t0").bytes()).toEqual(setTensorBytes(0));
  });

  test("a shard in two parts: the last one counts, with a warning", async () => {
    const { model, folder } = await openBuilt({
      json: (json) => ({ ...json, parts: [...json.parts, { ...json.parts[0], shards: [1] }] }),
    });
    expect(model.warnings).toMatchObject([{ code: "format/aeroset.repeated-shard", severity: "warning" }]);
    expect(await model.tensor("t1").bytes()).toEqual(setTensorBytes(1));
    await model.tensor("t0").bytes();
    // The same file twice in the JSON is two parts.
    expect(namesOf(folder)).toEqual(["index.aero", "part-000.aero", "part-000.aero"]);
  });

  test.each(["../index.aero", "/etc/passwd", "file:///etc/passwd"])("an index at %s is not opened", async (path) => {
    const files = buildSet({ json: (json) => ({ ...json, global_tidx: { path } }) });
    const folder = countedFolder(files);
    await expect(openFiles(files, folder)).rejects.toMatchObject({ at: { path: "global_tidx.path" } });
    expect(folder.opened).toEqual([]);
  });

  test("a part that leaves the folder is refused before anything is opened", async () => {
    const files = buildSet({
      json: (json) => ({ ...json, parts: [...json.parts, { path: "../x.aero", shards: [7] }] }),
    });
    const folder = countedFolder(files);
    await expect(openFiles(files, folder)).rejects.toMatchObject({
      code: "source/resolver.escape",
      at: { path: "parts[3].path" },
    });
    expect(folder.opened).toEqual([]);
  });

  test("duplicate tensor names and an index without TIDX are refused, and the index is closed", async () => {
    const twice = buildSet({ globalIndex: (tensors) => [...tensors, ...tensors.slice(0, 1)] });
    const folder = countedFolder(twice);
    await expect(openFiles(twice, folder)).rejects.toMatchObject({ code: "format/aero.duplicate-name" });
    const none = buildSet({ partIndex: () => null, json: (json) => ({ ...json, global_tidx: json.parts[0] }) });
    const other = countedFolder(none);
    await expect(openFiles(none, other)).rejects.toMatchObject({ code: "format/aeroset.no-index" });
    expect([...folder.opened, ...other.opened].map(({ source }) => source.closeCount)).toEqual([1, 1]);
  });

  test("on its own it is refused with advice", async () => {
    const source = memorySource(buildSet().get(SET_NAME) as Bytes, SET_NAME);
    await expect(openSource(source, { engine })).rejects.toMatchObject({ code: "usage/aeroset.no-siblings" });
  });

  test("is recognised by content, and leaves the files of other formats alone", async () => {
    const sniff = async (text: string): Promise<unknown> => {
      const source = memorySource(new TextEncoder().encode(text), "x.json");
      return openSource(source, { engine }).catch((error: unknown) => error);
    };
    expect(await sniff('{"format": {"name":"AEROSET"}}')).toMatchObject({ code: "format/aeroset.index" });
    expect(await sniff('{"parts": [], "global_tidx": {}}')).toMatchObject({ code: "format/aeroset.index" });
    expect(await sniff('{"metadata": {}, "weight_map": {}}')).toMatchObject({ code: "usage/safetensors.no-siblings" });
    expect(await sniff('{"parts": [1]}')).toMatchObject({ code: "unsupported/foreign.json" });
  });
});

describe("base_url", () => {
  const BASE = "https://cdn.example/m";
  const remote = (files: ReadonlyMap<string, Bytes>): Map<string, Bytes> =>
    new Map([...files].map(([name, bytes]) => [`${BASE}/${name}`, bytes]));

  test("comes second for a set in a folder", async () => {
    const files = buildSet({ json: (json) => ({ ...json, base_url: BASE }) });
    const urls = remote(files);
    files.delete("part-002.aero");
    const folder = countedFolder(files, urls);
    const model = await openFiles(files, folder);
    expect(await model.tensor("t0").bytes()).toEqual(setTensorBytes(0));
    expect(await model.tensor("t4").bytes()).toEqual(setTensorBytes(4));
    expect(namesOf(folder)).toEqual(["index.aero", "part-000.aero", `${BASE}/part-002.aero`]);
  });

  test("comes first for a set from a server", async () => {
    const files = buildSet({ json: (json) => ({ ...json, base_url: BASE }) });
    const folder = countedFolder(files, remote(files));
    const model = await openFiles(files, folder, "https://other.example/model.aeroset.json");
    await model.tensor("t2").bytes();
    expect(namesOf(folder)).toEqual([`${BASE}/index.aero`, `${BASE}/part-001.aero`]);
  });

  test("without a way to reach it, says what would allow it", async () => {
    const files = buildSet({ json: (json) => ({ ...json, base_url: BASE }) });
    files.delete("part-002.aero");
    const model = await openFiles(files, countedFolder(files));
    await expect(model.tensor("t4").bytes()).rejects.toMatchObject({
      code: "source/resolver.origin",
      hint: "Permit it with the option allowOrigin https://cdn.example",
    });
  });
});

test("openParts() gives tensors their places in the files", async () => {
  const { model } = await openBuilt();
  expect(model.tensors.map(({ offset }) => offset)).toEqual([0, 0, 0, 0, 0]);
  await model.openParts();
  for (const { name, offset, file } of model.tensors) {
    const part = model.parts.find(({ label }) => label === file);
    expect(await part?.source.read(offset, 16)).toEqual(await model.tensor(name).bytes());
  }
  expect(new Set(model.tensors.map(({ offset }) => offset)).size).toBeGreaterThan(1);
});

test("sizes that the JSON lacks are the least that the tensors need, until the part is open", async () => {
  const { model } = await openBuilt({
    json: (json) => ({ ...json, parts: json.parts.map(({ path, shards }) => ({ path, shards })) }),
  });
  expect(model.parts[2]?.byteLength).toBe(32);
  await model.openParts();
  expect(model.parts[2]?.byteLength).toBeGreaterThan(32);
});

const CONTEXT = { limits: {}, name: "set.json", engine: portableEngine() };

const SET = `{
  "base_url": "https://example.org/m", "license": "MIT", "large": 12345678901234567890,
  "parts": [ {"path": "https://example.org/a/p0.aero", "shards": [0], "mirror": "x"}, {"shards": [1], "path": "p1.aero"} ],
  "global_tidx": {"path": "index.aero"}
}`;

test("aerosetMembers() changes only the paths of a JSON with keys that the specification does not name", async () => {
  const { index } = await aerosetMembers(memorySource(encodeUtf8(SET), "https://example.org/m/set.json"), CONTEXT);
  const text = new TextDecoder().decode(index?.renamed?.(["p0.aero", "b/p1.aero", "index.aero"]));
  expect(text).toBe(
    SET.replace("https://example.org/a/p0.aero", "p0.aero")
      .replace('"https://example.org/m"', '""')
      .replace('"p1.aero"', '"b/p1.aero"'),
  );
});
