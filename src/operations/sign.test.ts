import { describe, expect, it } from "vitest";
import { buildSafetensors } from "../../test/builders/safetensors.ts";
import type { Bytes } from "../base/bytes.ts";
import { SourceError } from "../base/errors.ts";
import { encodeUtf8 } from "../base/text.ts";
import { memorySource } from "../bytes/memory.ts";
import type { Resolver } from "../bytes/resolver.ts";
import type { Opened } from "../model/format.ts";
import { openSource } from "../open.ts";
import { portableEngine } from "../primitives/portable.ts";
import {
  decodeDetached,
  detachedMessage,
  encodeDetached,
  generateKeys,
  keyId,
  type SignatureDemands,
  signBeside,
  signedNames,
  signerOf,
  verifySignature,
} from "./sign.ts";

const engine = portableEngine();
const SEED = new Uint8Array(32).fill(1);
const MODEL = buildSafetensors([{ name: "w", dtype: "U8", shape: [3], bytes: Uint8Array.of(1, 2, 3) }]);

/** A folder in memory. */
function folder(files: ReadonlyMap<string, Bytes>, name = "m.safetensors"): Resolver {
  return {
    name,
    async resolve(wanted) {
      const bytes = files.get(wanted);
      if (bytes === undefined) throw new SourceError("source/not-found", "none", { source: wanted });
      return memorySource(bytes, `dir/${wanted}`);
    },
  };
}

const openIn = async (files: ReadonlyMap<string, Bytes>): Promise<Opened> =>
  openSource(memorySource(files.get("m.safetensors") ?? MODEL, "dir/m.safetensors"), { engine });

async function signed(): Promise<Map<string, Bytes>> {
  const files = new Map([["m.safetensors", MODEL]]);
  const { container } = await openIn(files);
  const sign = await signerOf(engine, SEED);
  files.set("m.safetensors.sig", await signBeside(container, folder(files), { engine, sign }));
  return files;
}

async function judge(files: ReadonlyMap<string, Bytes>, demands: SignatureDemands = {}): Promise<string[]> {
  const findings = await verifySignature(await openIn(files), { engine, resolver: folder(files), ...demands });
  return findings.map(({ severity, code }) => `${severity} ${code}`);
}

describe("a signature beside a file", () => {
  it("lists the file, and is valid only for this file and this key", async () => {
    const files = await signed();
    const publicKey = await (await engine.ed25519()).publicKey(SEED);
    const sig = decodeDetached(files.get("m.safetensors.sig") ?? new Uint8Array(0), "sig");
    expect(sig.files).toMatchObject([{ name: "m.safetensors", byteLength: MODEL.byteLength }]);
    expect(sig.digest).toBe((await detachedMessage(engine, sig.files)).digest);
    expect(await judge(files)).toEqual(["note integrity/signature.valid"]);
    expect(await judge(files, { publicKey })).toEqual(["note integrity/signature.valid"]);
    const other = await (await engine.ed25519()).publicKey(new Uint8Array(32));
    expect(await judge(files, { publicKey: other })).toEqual(["error integrity/signature.untrusted"]);
  });

  it("reports a changed file as damage", async () => {
    const files = await signed();
    const changed = MODEL.slice();
    changed[MODEL.byteLength - 1] = 9;
    files.set("m.safetensors", changed);
    expect(await judge(files)).toEqual(["note integrity/signature.valid", "error integrity/signature.content"]);
  });

  it("detects a changed list", async () => {
    const files = await signed();
    const sig = decodeDetached(files.get("m.safetensors.sig") ?? new Uint8Array(0), "sig");
    const shorter = { ...sig, files: sig.files.map((file) => ({ ...file, byteLength: file.byteLength - 1 })) };
    files.set("m.safetensors.sig", encodeDetached(shorter));
    expect(await judge(files)).toEqual(["error integrity/signature.invalid"]);
  });

  it("does not cover a model if it lists another file", async () => {
    const files = new Map([
      ["m.safetensors", MODEL],
      ["other.bin", Uint8Array.of(1)],
    ]);
    const { container } = await openIn(files);
    const sign = await signerOf(engine, SEED);
    files.set("m.safetensors.sig", await signBeside(container, folder(files, "other.bin"), { engine, sign }));
    expect(await judge(files)).toEqual(["note integrity/signature.valid", "error integrity/signature.invalid"]);
  });

  it("is an error if missing, but only if one is required", async () => {
    const files = new Map([["m.safetensors", MODEL]]);
    expect(await judge(files)).toEqual([]);
    expect(await judge(files, { unsigned: "refused" })).toEqual(["error integrity/signature.missing"]);
  });
});

describe("decodeDetached()", () => {
  it.each([
    ["not JSON", "-----BEGIN PGP SIGNATURE-----"],
    ["another format", '{"format":"x"}'],
    ["a key twice", '{"format":"tare signature v1","format":"tare signature v1"}'],
    ["an array", "[]"],
    ["nothing", ""],
  ])("refuses %s", (_, text) => {
    const refused = expect.objectContaining({ code: "format/signature.file" });
    expect(() => decodeDetached(encodeUtf8(text), "sig")).toThrow(refused);
  });

  it("refuses names that lead elsewhere, lists out of order, and other spellings of base64", async () => {
    const sig = decodeDetached((await signed()).get("m.safetensors.sig") ?? new Uint8Array(0), "sig");
    const [file = { name: "", byteLength: 0, sha256: "" }] = sig.files;
    const decode = (files: typeof sig.files): unknown => decodeDetached(encodeDetached({ ...sig, files }), "sig");
    expect(() => decode([{ ...file, name: "../x" }])).toThrow(
      expect.objectContaining({ code: "source/resolver.escape" }),
    );
    expect(() => decode([file, file])).toThrow(/sorted by name/);
    expect(() => decode([{ ...file, sha256: file.sha256.toUpperCase() }])).toThrow(/lower-case/);
    expect(() => decode([])).toThrow(/must be a list/);
    const text = new TextDecoder().decode(encodeDetached(sig));
    const loose = text.replace(/("signature": "[^"]*)=="/, '$1"');
    expect(loose).not.toBe(text);
    expect(() => decodeDetached(encodeUtf8(loose), "sig")).toThrow(/64 bytes in base64/);
    expect(() => decodeDetached(new Uint8Array((4 << 20) + 1), "sig")).toThrow(
      expect.objectContaining({ code: "limit/signature.bytes" }),
    );
  });
});

describe("signedNames()", () => {
  it("are relative to the first file; files of another folder are refused", () => {
    const part = (label: string) => ({ label, byteLength: 0, source: memorySource(new Uint8Array(0)) });
    const container = (labels: string[]) => ({ parts: labels.map(part) }) as unknown as Opened["container"];
    const resolver = folder(new Map(), "i.json");
    expect(signedNames(container(["a/i.json", "a/z.bin", "a/sub/y.bin"]), resolver)).toEqual([
      "i.json",
      "sub/y.bin",
      "z.bin",
    ]);
    expect(signedNames(container(["https://h/a/i.json?x=1", "https://h/a/z.bin?x=1"]), resolver)).toEqual([
      "i.json",
      "z.bin",
    ]);
    expect(signedNames(container(["a/i.json", "z.bin"]), resolver)).toEqual(["i.json", "z.bin"]);
    expect(() => signedNames(container(["a/i.json", "/b/z.bin"]), resolver)).toThrow(
      expect.objectContaining({ code: "usage/signature.parts" }),
    );
  });
});

describe("generateKeys()", () => {
  it("makes a pair whose halves belong together, from 32 random bytes", async () => {
    const pair = await generateKeys(engine, (byteLength) => new Uint8Array(byteLength).fill(1));
    const publicKey = await (await engine.ed25519()).publicKey(SEED);
    expect(pair.id).toBe(await keyId(engine, publicKey));
    expect(pair.privatePem).toMatch(/^-----BEGIN PRIVATE KEY-----\n/);
    const { privatePem } = await generateKeys(engine);
    expect(privatePem).not.toBe((await generateKeys(engine)).privatePem);
  });
});
