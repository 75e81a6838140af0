import { createDecipheriv, createHash, createHmac, hkdfSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { buildApr } from "../../../../test/builders/apr.ts";
import {
  CHEAP,
  countingRandom,
  LONG_BYTES,
  longTensor,
  passwordOf,
  quickEngine,
  smallTensors,
  writeSealedApr,
} from "../../../../test/builders/sealed-apr.ts";
import { float32Tensor, memoryTensor } from "../../../../test/builders/tensors.ts";
import { sourceContract } from "../../../../test/contracts/source-contract.ts";
import { countingSource } from "../../../../test/support/counting-source.ts";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { TareError } from "../../../base/errors.ts";
import { type MemoryOutput, memorySink, memorySource } from "../../../bytes/memory.ts";
import type { Source } from "../../../bytes/source.ts";
import type { Finding } from "../../../model/finding.ts";
import type { VerifyLevel } from "../../../model/format.ts";
import { Metadata, stringValue } from "../../../model/metadata.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
import { portableEngine } from "../../../primitives/portable.ts";
import type { AprModel } from "../model.ts";
import { openApr } from "../read.ts";
import { verifier } from "../verify.ts";
import { writer } from "../write.ts";
import { checkCost, parseRecord } from "./keys.ts";
import { openedByteLength, SEALED_SEGMENT_BYTES, sealedByteLength } from "./segments.ts";

const engine = quickEngine();
const right = passwordOf("right");

const fileOf = (output: MemoryOutput, name = "m.apr"): Bytes => output.files.get(name) ?? new Uint8Array(0);

const open = (bytes: Bytes | Source, password = right): Promise<AprModel> =>
  openApr(bytes instanceof Uint8Array ? memorySource(bytes, "m.apr") : bytes, { engine, limits: {}, password });

async function verify(model: AprModel, level: VerifyLevel = "full"): Promise<Finding[]> {
  const findings: Finding[] = [];
  const context = { engine, limits: {}, level, count: () => undefined };
  for await (const finding of verifier.verify(model, context)) findings.push(finding);
  return findings;
}

/** Damage by an attacker who knows the format: the footer's CRC is right again. */
function withCrc(bytes: Bytes): Bytes {
  const end = bytes.byteLength - 16;
  new DataView(bytes.buffer).setUint32(end, crc32Javascript(bytes.subarray(0, end), 0), true);
  return bytes;
}

function flip(bytes: Bytes, at: number): Bytes {
  const copy = bytes.slice();
  copy[at] = (copy[at] as number) ^ 1;
  return copy;
}

sourceContract(
  "an encrypted tensor",
  async (bytes) => {
    const output = await writeSealedApr([memoryTensor("long", "U8", [bytes.byteLength], bytes)], engine);
    return { source: (await open(fileOf(output))).tensor("long").source() };
  },
  { closing: "own" },
);

describe("writing and reading", () => {
  it("gives every byte back, compressed or not, and stores none of them in clear", async () => {
    for (const compress of ["lz4", "none"] as const) {
      const tensors = [longTensor(), ...smallTensors()];
      const bytes = fileOf(await writeSealedApr(tensors, engine, { compress }));
      const model = await open(bytes);
      for (const tensor of tensors) expect(await model.tensor(tensor.name).bytes()).toEqual(await tensor.bytes());
      expect(await verify(model)).toEqual([]);
      expect(Buffer.from(bytes).includes(Buffer.from(Float32Array.of(1, 2, 3).buffer))).toBe(false);
      expect(model.metadata.text("note")).toBe("kept");
      expect(model.metadata.get("encryption")).toBeUndefined();
    }
  });

  it("runs with the real Argon2id", async () => {
    const real = portableEngine();
    const bytes = fileOf(await writeSealedApr([float32Tensor("a", [7])], real));
    const model = await openApr(memorySource(bytes), { engine: real, limits: {}, password: passwordOf("right") });
    expect(await model.tensor("a").toFloat32()).toEqual(Float32Array.of(7));
  });

  it("encrypts every shard of a set under one password", async () => {
    const tensors = [float32Tensor("a", [1, 2]), float32Tensor("b", [3, 4])];
    const output = await writeSealedApr(tensors, engine, { maxShardBytes: 8 });
    expect([...output.files.keys()]).toEqual(["m-00001-of-00002.apr", "m-00002-of-00002.apr", "m.apr"]);
    let asked = 0;
    const resolver = { name: "m.apr", resolve: async (name: string) => memorySource(fileOf(output, name), name) };
    const password = async (): Promise<Bytes> => {
      asked++;
      return new TextEncoder().encode("right");
    };
    const model = await openApr(memorySource(fileOf(output)), { engine, limits: {}, resolver, password });
    expect(await model.tensor("b").toFloat32()).toEqual(Float32Array.of(3, 4));
    expect(await model.tensor("a").toFloat32()).toEqual(Float32Array.of(1, 2));
    expect(asked).toBe(1);
    expect(await verify(model)).toEqual([]);
  });

  it("detects by the manifest an encrypted shard of another model under the same password", async () => {
    const set = (last: number): Promise<MemoryOutput> =>
      writeSealedApr([float32Tensor("a", [1, 2]), float32Tensor("b", [3, last])], engine, { maxShardBytes: 8 });
    const [own, other] = [await set(4), await set(5)];
    const shard = "m-00002-of-00002.apr";
    expect(fileOf(other, shard).byteLength).toBe(fileOf(own, shard).byteLength);
    const resolve = async (name: string) => memorySource(fileOf(name === shard ? other : own, name), name);
    const opening = { engine, limits: {}, resolver: { name: "m.apr", resolve }, password: right };
    const model = await openApr(memorySource(fileOf(own)), opening);
    for (const level of ["full", "quick"] as const) {
      expect(await verify(model, level)).toMatchObject([{ severity: "error", code: "integrity/apr.shard-crc" }]);
    }
  });

  it("also writes to a destination that cannot go back", async () => {
    const seekable = fileOf(await writeSealedApr([longTensor()], engine, { compress: "lz4" }));
    const sink = memorySink("pipe");
    const pipe = {
      label: "pipe",
      get position() {
        return sink.position;
      },
      append: (bytes: Bytes) => sink.append(bytes),
      commit: () => sink.commit(),
      abort: () => sink.abort(),
    };
    const metadata = new Metadata([{ key: "note", value: stringValue("kept") }]);
    const encrypt = { password: right, cost: CHEAP, random: countingRandom() };
    const options = { name: "m.apr", encrypt, compress: "lz4" } as const;
    const plan = writer.plan({ metadata, tensors: [longTensor()], chain: [] }, options);
    expect(plan).toBeDefined();
    await writer.write(plan, { label: "p", name: "m.apr", create: async () => pipe }, { engine });
    expect(sink.published).toEqual(seekable);
  });

  it("opens only the segments that a read needs", async () => {
    const bytes = fileOf(await writeSealedApr([longTensor()], engine));
    const source = countingSource(memorySource(bytes, "m.apr"));
    const model = await open(source);
    const tensor = model.tensor("long").source();
    await tensor.read(0, 1);
    const before = source.byteCount;
    expect(await tensor.read(70_000, 5)).toEqual((await longTensor().bytes()).slice(70_000, 70_005));
    expect(source.byteCount - before).toBeLessThanOrEqual(SEALED_SEGMENT_BYTES + 7);
  });
});

describe("the layout of docs/formats/apr-seal.md", () => {
  it("can be decrypted by hand with OpenSSL", async () => {
    const bytes = fileOf(await writeSealedApr([longTensor("w")], engine));
    const view = new DataView(bytes.buffer);
    const [metadataSize, indexOffset, indexSize, dataOffset] = [16, 20, 24, 28].map((at) =>
      view.getUint32(at, true),
    ) as [number, number, number, number];
    const text = Buffer.from(bytes.subarray(32, 32 + metadataSize)).toString();
    const { encryption } = JSON.parse(text) as { encryption: Record<string, string> & { kdf: { salt: string } } };
    const raw = (name: string): Buffer => Buffer.from(encryption[name] ?? "", "base64");
    const wrapping = createHash("sha256").update("right").update(Buffer.from(encryption.kdf.salt, "base64")).digest();
    const unwrap = createDecipheriv("id-aes256-wrap", wrapping, Buffer.alloc(8, 0xa6));
    const fileKey = Buffer.concat([unwrap.update(raw("wrapped_key")), unwrap.final()]);

    const macKey = Buffer.from(hkdfSync("sha256", fileKey, raw("file_id"), "tare apr front matter v1", 32));
    const blank = text.replace(encryption["mac"] ?? "", Buffer.alloc(32).toString("base64"));
    const mac = createHmac("sha256", macKey).update(bytes.subarray(0, 32)).update(blank);
    mac.update(bytes.subarray(indexOffset, indexOffset + indexSize));
    expect(mac.digest("base64")).toBe(encryption["mac"]);

    const plain: Buffer[] = [];
    for (let number = 0, at = dataOffset + 7; number < 3; number++) {
      const end = number === 2 ? bytes.byteLength - 16 : at + 65552;
      const number32 = Buffer.alloc(4);
      number32.writeUInt32LE(number);
      const nonce = Buffer.concat([
        bytes.subarray(dataOffset, dataOffset + 7),
        number32,
        Buffer.of(number === 2 ? 1 : 0),
      ]);
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(LONG_BYTES));
      const name = Buffer.from([1, 0, 0x77, 7, 1]); // name_len, "w", dtype U8, one dimension
      const cipher = createDecipheriv("aes-256-gcm", fileKey, nonce);
      cipher.setAAD(Buffer.concat([raw("file_id"), name, length, length, number32]));
      cipher.setAuthTag(bytes.subarray(end - 16, end));
      plain.push(cipher.update(bytes.subarray(at, end - 16)), cipher.final());
      at = end;
    }
    expect(new Uint8Array(Buffer.concat(plain))).toEqual(await longTensor().bytes());
  });
});

describe("refusals", () => {
  it("tells a wrong password, no password and other encryption schemes apart", async () => {
    const bytes = fileOf(await writeSealedApr(smallTensors(), engine));
    const read = async (password: typeof right | undefined): Promise<unknown> =>
      (await openApr(memorySource(bytes), { engine, limits: {}, password })).tensor("a").bytes();
    await expect(read(passwordOf("wrong"))).rejects.toMatchObject({ code: "usage/password.wrong" });
    await expect(read(undefined)).rejects.toMatchObject({ code: "usage/password.missing" });
    await expect(read(async () => undefined)).rejects.toMatchObject({ code: "usage/password.missing" });
    const other = withCrc(replaceText(bytes, "tare-aes-256-gcm-v1", "some-aes-256-gcm-v1"));
    await expect((await open(other)).tensor("a").bytes()).rejects.toMatchObject({ code: "unsupported/apr.encrypted" });
  });

  it("verify notes without a password that nothing was opened, and fails with a wrong one", async () => {
    const bytes = fileOf(await writeSealedApr(smallTensors(), engine));
    const model = await openApr(memorySource(bytes), { engine, limits: {} });
    expect(await verify(model)).toMatchObject([{ severity: "note", code: "integrity/apr.sealed" }]);
    const findings = await verify(await open(bytes, passwordOf("wrong")));
    expect(findings).toMatchObject([{ severity: "error", code: "usage/password.wrong" }]);
  });

  it.each([{ memoryKib: (19 << 10) - 1 }, { memoryKib: (1 << 20) + 1 }, { passes: 17 }, { passes: 0 }, { lanes: 17 }])(
    "does not derive keys at the cost %o",
    (change) => {
      const refused = expect.objectContaining({ code: "limit/apr.kdf" });
      expect(() => checkCost({ ...CHEAP, ...change }, { source: "x" })).toThrow(refused);
      expect(() => checkCost({ memoryKib: 1 << 20, passes: 16, lanes: 16 }, { source: "x" })).not.toThrow();
    },
  );

  it("refuses a cost outside the bounds before any work, and one that was changed later", async () => {
    const bytes = fileOf(await writeSealedApr(smallTensors(), engine));
    for (const change of ['"memory_kib":19455', '"memory_kib":10000']) {
      const changed = withCrc(replaceText(bytes, '"memory_kib":19456', change));
      await expect((await open(changed)).tensor("a").bytes()).rejects.toMatchObject({ code: "limit/apr.kdf" });
    }
    // A changed cost within the bounds gives another key.
    const other = withCrc(replaceText(bytes, '"passes":1,', '"passes":2,'));
    await expect((await open(other)).tensor("a").bytes()).rejects.toMatchObject({ code: "integrity/apr.front" });
    expect(() => parseRecord(undefined, { source: "x" })).toThrow(
      expect.objectContaining({ code: "unsupported/apr.encrypted" }),
    );
  });

  it("hands out nothing of a file with an added plain tensor", async () => {
    const metadata =
      '{"apr_version":"2.0.0","model_type":"t","architecture":{},"encryption":{"scheme":"tare-aes-256-gcm-v1"}}';
    const bytes = buildApr({
      flags: 0x12,
      metadata,
      tensors: [{ name: "x", dims: [4], data: Uint8Array.of(1, 2, 3, 4) }],
    });
    await expect(open(bytes)).rejects.toMatchObject({ code: "format/apr.unsealed-tensor" });
  });

  it("notices swapped segments and swapped tensors", async () => {
    const bytes = fileOf(await writeSealedApr([longTensor()], engine));
    const { offset } = (await open(bytes)).tensor("long");
    const first = offset + 7;
    const swapped = concatBytes([
      bytes.subarray(0, first),
      bytes.subarray(first + SEALED_SEGMENT_BYTES, first + 2 * SEALED_SEGMENT_BYTES),
      bytes.subarray(first, first + SEALED_SEGMENT_BYTES),
      bytes.subarray(first + 2 * SEALED_SEGMENT_BYTES),
    ]);
    await expect((await open(withCrc(swapped))).tensor("long").bytes()).rejects.toMatchObject({
      code: "integrity/apr.segment",
      at: { offset: first, path: '"long".segment[0]' },
    });
    const small = fileOf(await writeSealedApr(smallTensors(), engine));
    const model = await open(small);
    const [at, bt] = [model.tensor("a"), model.tensor("b")];
    const traded = small.slice();
    traded.set(small.subarray(bt.offset, bt.offset + bt.storedByteLength), at.offset);
    await expect((await open(withCrc(traded))).tensor("a").bytes()).rejects.toMatchObject({
      code: "integrity/apr.segment",
    });
  });

  it("notices every changed byte, even if the checksum is repaired", async () => {
    const bytes = fileOf(await writeSealedApr([float32Tensor("a", [1]), float32Tensor("b", [2])], engine));
    const wanted = [1, 2];
    const unnoticed: number[] = [];
    const raw: number[] = [];
    for (let at = 0; at < bytes.byteLength - 16; at++) {
      try {
        const model = await open(withCrc(flip(bytes, at)));
        const findings = await verify(model);
        if (findings.length === 0 && model.warnings.length === 0) unnoticed.push(at);
        // If reading works at all, it gives what was written.
        for (const [i, name] of ["a", "b"].entries()) {
          if ((await model.tensor(name).toFloat32())[0] !== wanted[i]) unnoticed.push(at);
        }
      } catch (error) {
        if (!(error instanceof TareError)) raw.push(at);
      }
    }
    expect({ unnoticed, raw }).toEqual({ unnoticed: [], raw: [] });
  });
});

describe("sealedByteLength() and openedByteLength()", () => {
  it("are each other's inverse, and no other length is accepted", () => {
    for (const length of [0, 1, 65535, 65536, 65537, 131072, 131073]) {
      expect(openedByteLength(sealedByteLength(length))).toBe(length);
    }
    expect(sealedByteLength(65536)).toBe(7 + 65536 + 16);
    for (const sealed of [1, 7, 23, 7 + 65552 + 1, 7 + 65552 + 16]) expect(openedByteLength(sealed)).toBeUndefined();
  });
});

function replaceText(bytes: Bytes, from: string, to: string): Bytes {
  const at = Buffer.from(bytes).indexOf(from);
  const copy = bytes.slice();
  copy.set(new TextEncoder().encode(to), at);
  return copy;
}
