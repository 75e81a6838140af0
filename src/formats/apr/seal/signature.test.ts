import { createHash, createPublicKey, verify as verifyByOpenssl } from "node:crypto";
import { describe, expect, it } from "vitest";
import { buildApr } from "../../../../test/builders/apr.ts";
import { passwordOf, quickEngine, smallTensors, writeSealedApr } from "../../../../test/builders/sealed-apr.ts";
import { type Bytes, concatBytes } from "../../../base/bytes.ts";
import { encodeHex } from "../../../base/text.ts";
import { memorySink, memorySource } from "../../../bytes/memory.ts";
import type { Finding } from "../../../model/finding.ts";
import { type SignatureDemands, signerOf, verifySignature } from "../../../operations/sign.ts";
import { publicKeyDer } from "../../../primitives/crypto/ed25519.ts";
import { crc32Javascript } from "../../../primitives/digest/crc32.ts";
import { apr } from "../index.ts";
import { openApr, reader } from "../read.ts";
import { verifier } from "../verify.ts";
import { aprSigning } from "./signature.ts";

const engine = quickEngine();
const SEED = new Uint8Array(32).fill(7);
const TENSOR = { name: "w", dtype: 0, dims: [2], data: new Uint8Array(Float32Array.of(1, 2).buffer) };
const PLAIN = buildApr({ flags: 2, tensors: [TENSOR] });

async function sign(bytes: Bytes, seed = SEED): Promise<Bytes> {
  const sink = memorySink();
  const container = await openApr(memorySource(bytes), { engine, limits: {} });
  await aprSigning.write(container, sink, { engine, sign: await signerOf(engine, seed) });
  await sink.commit();
  return sink.published ?? new Uint8Array(0);
}

async function judge(bytes: Bytes, demands: SignatureDemands = {}): Promise<string[]> {
  const container = await openApr(memorySource(bytes), { engine, limits: {} });
  const findings = await verifySignature({ container, format: apr, reader, notes: [] }, { engine, ...demands });
  return findings.map(({ severity, code }) => `${severity} ${code}`);
}

async function verify(bytes: Bytes): Promise<Finding[]> {
  const findings: Finding[] = [];
  const context = { engine, limits: {}, level: "full", count: () => undefined } as const;
  const model = await openApr(memorySource(bytes), context);
  for await (const finding of verifier.verify(model, context)) findings.push(finding);
  return findings;
}

function repaired(bytes: Bytes): Bytes {
  const end = bytes.byteLength - 16;
  new DataView(bytes.buffer).setUint32(end, crc32Javascript(bytes.subarray(0, end), 0), true);
  return bytes;
}

const publicKeyOf = async (seed: Bytes): Promise<Bytes> => (await engine.ed25519()).publicKey(seed);

describe("aprSigning", () => {
  it("puts 96 bytes before the footer that OpenSSL accepts, and changes nothing else except the flag", async () => {
    const signed = await sign(PLAIN);
    expect(signed.byteLength).toBe(PLAIN.byteLength + 96);
    const end = signed.byteLength - 112;
    expect(new DataView(signed.buffer).getUint32(8, true)).toBe(0x22);
    expect(signed.subarray(12, end)).toEqual(PLAIN.subarray(12, end));
    expect(await verify(signed)).toEqual([]);
    const digest = createHash("sha512").update(signed.subarray(0, end)).digest();
    const message = Buffer.concat([Buffer.from("tare apr signature v1\0"), digest]);
    const key = Buffer.from(publicKeyDer(signed.slice(end + 64, end + 96)));
    const publicKey = createPublicKey({ key, type: "spki", format: "der" });
    expect(verifyByOpenssl(null, message, publicKey, signed.subarray(end, end + 64))).toBe(true);
    expect(encodeHex(signed.slice(end + 64, end + 96))).toBe(encodeHex(await publicKeyOf(SEED)));
  });

  it("signing again gives the same bytes, and another key replaces the signature", async () => {
    const signed = await sign(PLAIN);
    expect(await sign(signed)).toEqual(signed);
    const other = await sign(signed, new Uint8Array(32).fill(8));
    expect(other.byteLength).toBe(signed.byteLength);
    expect(await judge(other, { publicKey: await publicKeyOf(SEED) })).toEqual(["error integrity/signature.untrusted"]);
  });

  it("is trusted only with the demanded key", async () => {
    const signed = await sign(PLAIN);
    const publicKey = await publicKeyOf(SEED);
    expect(await judge(signed)).toEqual(["note integrity/signature.valid"]);
    expect(await judge(signed, { publicKey })).toEqual(["note integrity/signature.valid"]);
    expect(await judge(PLAIN)).toEqual([]);
    expect(await judge(PLAIN, { publicKey })).toEqual(["error integrity/signature.missing"]);
    expect(await judge(PLAIN, { unsigned: "refused" })).toEqual(["error integrity/signature.missing"]);
    expect(await judge(PLAIN, { publicKey, unsigned: "allowed" })).toEqual([]);
  });

  it("does not survive a change of any byte, even if the checksum is repaired", async () => {
    const signed = await sign(PLAIN);
    const publicKey = await publicKeyOf(SEED);
    const survived: number[] = [];
    for (let at = 0; at < signed.byteLength - 16; at++) {
      const changed = signed.slice();
      changed[at] = (changed[at] as number) ^ 4;
      const findings = await judge(repaired(changed), { publicKey }).catch((error: { code?: string }) => [
        `error ${error.code}`,
      ]);
      if (!findings.some((text) => text.startsWith("error "))) survived.push(at);
    }
    expect(survived).toEqual([]);
  });

  it("notices a removed signature if the key is demanded, with or without the flag", async () => {
    const signed = await sign(PLAIN);
    const publicKey = await publicKeyOf(SEED);
    const footer = signed.slice(-16);
    new DataView(footer.buffer).setUint32(8, signed.byteLength - 96, true);
    const cut = concatBytes([signed.subarray(0, -112), footer]);
    const left = await judge(repaired(cut), { publicKey }).catch((error: { code?: string }) => [`error ${error.code}`]);
    expect(left).toEqual(["error format/apr.truncated"]);
    const cleared = cut.slice();
    cleared[8] = 2;
    expect(await judge(repaired(cleared), { publicKey })).toEqual(["error integrity/signature.missing"]);
  });

  it("does not sign a damaged file", async () => {
    const damaged = PLAIN.slice();
    damaged[PLAIN.byteLength - 17] = 0xee;
    await expect(sign(damaged)).rejects.toMatchObject({ code: "integrity/apr.crc" });
  });

  it("puts the signature of shards and other layouts beside them", async () => {
    const shard = await openApr(memorySource(buildApr({ flags: 0x0a, tensors: [TENSOR] })), { engine, limits: {} });
    expect(aprSigning.place(shard)).toBe("beside");
    expect(aprSigning.place(await openApr(memorySource(PLAIN), { engine, limits: {} }))).toBe("inside");
  });

  it("an encrypted file can be signed without its password, and still opens", async () => {
    const output = await writeSealedApr(smallTensors(), engine);
    const signed = await sign(output.files.get("m.apr") ?? new Uint8Array(0));
    expect(await judge(signed)).toEqual(["note integrity/signature.valid"]);
    const model = await openApr(memorySource(signed), { engine, limits: {}, password: passwordOf("right") });
    expect(await model.tensor("b").toFloat32()).toEqual(Float32Array.of(4, 5, 6));
  });
});
