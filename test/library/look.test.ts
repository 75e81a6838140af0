import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { list as listPortable, verify as verifyPortable } from "../../src/index.ts";
import {
  createModel,
  diff,
  explain,
  inspect,
  list,
  map,
  meta,
  openModel,
  sign,
  stats,
  verify,
} from "../../src/platform/node/index.ts";
import { callTare } from "../cli/run-tare.ts";
import { documentOf, expectSame, MemoryDirectory, MemoryHandle, plain } from "../support/library.ts";

let folder: string;
const at = (name: string): string => join(folder, name);
const bytesOf = (name: string): Uint8Array<ArrayBuffer> => new Uint8Array(readFileSync(at(name)));

async function made(...args: readonly string[]): Promise<void> {
  const { code, err } = await callTare(args, { cwd: folder });
  if (code !== 0) throw new Error(err);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-library-look-"));
  await made("demo", "demo");
  await made("convert", "demo/demo.safetensors", "m.gguf");
  await made("convert", "demo/demo.safetensors", "m.aero", "--tensor-hashes", "--page-hashes", "64KiB");
  await made("convert", "demo/demo.safetensors", "half.safetensors", "--dtype", "f16");
  await made("keygen", "-o", "release");
  await made("keygen", "-o", "other");
  for (const vault of ["a.aerovault", "b.aerovault"]) {
    await made("vault", "create", vault, "--no-encryption");
    await made("vault", "add", vault, "m.gguf", "demo/demo.safetensors", "--no-encryption", "--to", "models");
  }
  await made("vault", "add", "b.aerovault", "release.pub", "--no-encryption");
  writeFileSync(at("cut.gguf"), bytesOf("m.gguf").subarray(0, 300));
  const flipped = bytesOf("m.aero");
  flipped[flipped.byteLength - 5000] = 0xff ^ (flipped.at(-5000) as number);
  writeFileSync(at("damaged.aero"), flipped);
  writeFileSync(at("notes.txt"), "the key is under the mat");
  await made("sign", "m.gguf", "--key", "release.key");
});
afterAll(() => rmSync(folder, { recursive: true }));

const first = async (path: string): Promise<string> =>
  ((await list(at(path))).tensors ?? []).map(({ name }) => name).at(0) as string;

describe("each function gives what its command prints", () => {
  test.each([
    ["list", ["ls", "m.gguf"], () => list("m.gguf")],
    ["list, by its long name", ["list", "m.gguf"], () => list("m.gguf")],
    ["list, one glob", ["ls", "m.gguf", "*norm*"], () => list("m.gguf", { glob: "*norm*" })],
    ["list, no match", ["ls", "m.gguf", "no.such"], () => list("m.gguf", { glob: ["no.such"] })],
    ["list, a vault", ["ls", "a.aerovault"], () => list("a.aerovault")],
    ["list, a vault and a glob", ["ls", "a.aerovault", "models/*"], () => list("a.aerovault", { glob: "models/*" })],
    ["list, no such entry", ["ls", "a.aerovault", "x"], () => list("a.aerovault", { glob: "x" })],
    ["list, inside a vault", ["ls", "a.aerovault::models/m.gguf"], () => list("a.aerovault::models/m.gguf")],
    ["list, no file", ["ls", "no.gguf"], () => list("no.gguf")],
    ["meta", ["meta", "m.gguf"], () => meta("m.gguf")],
    ["meta, one key", ["meta", "m.gguf", "general.architecture"], () => meta("m.gguf", "general.architecture")],
    [
      "meta, no such key",
      ["meta", "m.gguf", "general.architectur"],
      () => meta("m.gguf", { key: "general.architectur" }),
    ],
    ["meta, a vault", ["meta", "a.aerovault"], () => meta("a.aerovault")],
    ["map", ["map", "m.aero"], () => map("m.aero")],
    ["map, a vault", ["map", "a.aerovault"], () => map("a.aerovault")],
    [
      "diff",
      ["diff", "m.gguf", "half.safetensors", "--metadata"],
      () => diff("m.gguf", "half.safetensors", { metadata: true }),
    ],
    [
      "diff, with numbers",
      ["diff", "m.gguf", "half.safetensors", "--stats", "--tolerance", "0.001"],
      () => diff("m.gguf", "half.safetensors", { stats: true, tolerance: 0.001 }),
    ],
    ["diff, vaults", ["diff", "a.aerovault", "b.aerovault"], () => diff("a.aerovault", "b.aerovault")],
    ["diff, a model and a vault", ["diff", "m.gguf", "a.aerovault"], () => diff("m.gguf", "a.aerovault")],
    [
      "stats",
      ["stats", "half.safetensors", "*norm*", "--hist", "8"],
      () => stats("half.safetensors", { glob: "*norm*", hist: 8 }),
    ],
    ["stats, a vault", ["stats", "a.aerovault"], () => stats("a.aerovault")],
    ["verify", ["verify", "m.aero"], () => verify("m.aero")],
    ["verify, quick", ["verify", "m.aero", "--level", "quick"], () => verify("m.aero", { level: "quick" })],
    ["verify, quick as a flag", ["verify", "m.aero", "--quick"], () => verify("m.aero", { level: "quick" })],
    ["verify, remote", ["verify", "m.aero", "--remote"], () => verify("m.aero", { remote: true })],
    ["verify, digests", ["verify", "m.gguf", "--digest", "blake3"], () => verify("m.gguf", { digest: "blake3" })],
    ["verify, damaged", ["verify", "damaged.aero"], () => verify("damaged.aero")],
    ["verify, cut off", ["verify", "cut.gguf"], () => verify("cut.gguf")],
    ["verify, no model", ["verify", "notes.txt"], () => verify("notes.txt")],
    ["verify, no file", ["verify", "no.gguf"], () => verify("no.gguf")],
    ["verify, a vault", ["verify", "a.aerovault"], () => verify("a.aerovault")],
    ["verify, inside a vault", ["verify", "a.aerovault::models/m.gguf"], () => verify("a.aerovault::models/m.gguf")],
    [
      "verify, signed",
      ["verify", "m.gguf", "--public-key", "release.pub"],
      () => verify("m.gguf", { publicKey: "release.pub" }),
    ],
    [
      "verify, another key",
      ["verify", "m.gguf", "--public-key", "other.pub"],
      () => verify("m.gguf", { publicKey: "other.pub" }),
    ],
    [
      "verify, not signed",
      ["verify", "m.aero", "--require-signature"],
      () => verify("m.aero", { requireSignature: true }),
    ],
    [
      "verify, may be unsigned",
      ["verify", "m.aero", "--public-key", "release.pub", "--allow-unsigned"],
      () => verify("m.aero", { publicKey: "release.pub", allowUnsigned: true }),
    ],
    [
      "verify, both demands",
      ["verify", "m.aero", "--require-signature", "--allow-unsigned"],
      () => verify("m.aero", { requireSignature: true, allowUnsigned: true }),
    ],
    [
      "verify, no key file",
      ["verify", "m.aero", "--public-key", "no.pub"],
      () => verify("m.aero", { publicKey: "no.pub" }),
    ],
    [
      "verify, another file",
      ["verify", "m.aero", "--public-key", "m.aero"],
      () => verify("m.aero", { publicKey: "m.aero" }),
    ],
    ["explain", ["explain", "unsupported/lossy"], () => explain("unsupported/lossy")],
    ["explain, a note", ["explain", "integrity/not-checked"], () => explain("integrity/not-checked")],
    ["explain, all", ["explain"], () => explain()],
    ["explain, no such code", ["explain", "usage/no-such"], () => explain("usage/no-such")],
  ] as const)("%s", async (_what, args, call) => {
    const here = process.cwd();
    const inFolder = async (): Promise<unknown> => {
      process.chdir(folder);
      try {
        return await call();
      } finally {
        process.chdir(here);
      }
    };
    await expectSame(inFolder, args, folder);
  });
});

describe("every kind of input", () => {
  test("gives the same tensors", async () => {
    const bytes = bytesOf("m.gguf");
    const wanted = plain(await list(at("m.gguf")));
    const picked = new MemoryDirectory();
    picked.files.set("m.gguf", new MemoryHandle("m.gguf", bytes));
    const model = await openModel(at("m.gguf"));
    const inputs = [
      pathToFileURL(at("m.gguf")),
      bytes,
      bytes.buffer,
      new Blob([bytes]),
      new File([bytes], "m.gguf"),
      new Blob([bytes]).stream(),
      new MemoryHandle("m.gguf", bytes),
      picked,
      model,
    ];
    for (const input of inputs) expect(plain(await list(input))).toEqual(wanted);
    // What was open before stays open, whatever looks at it.
    const looks = [
      () => inspect(model),
      () => map(model),
      () => stats(model),
      () => verify(model),
      () => diff(model, bytes),
    ];
    for (const look of looks) await look();
    expect((await model.tensors[0]?.bytes())?.byteLength).toBeGreaterThan(0);
    await model.close();
  });

  test("a signature beside a file is found from an opened model too, and not from bytes", async () => {
    const model = await openModel(at("m.gguf"));
    const publicKey = readFileSync(at("release.pub"));
    const codes = async (input: Parameters<typeof verify>[0]): Promise<string[]> =>
      (await verify(input, { publicKey })).findings
        .map(({ code }) => code)
        .filter((code) => code.includes("signature"));
    expect(await codes(model)).toEqual(["integrity/signature.valid"]);
    expect(await codes(bytesOf("m.gguf"))).toEqual(["integrity/signature.missing"]);
    await model.close();
  });

  test("without a file system, text is an address", async () => {
    await expect(listPortable("m.gguf")).rejects.toMatchObject({ code: "usage/not-a-url" });
    expect((await verifyPortable(new Blob([bytesOf("m.gguf")]))).ok).toBe(true);
    await expect(list(7 as never)).rejects.toMatchObject({ code: "usage/input" });
  });
  test("bytes whose memory was transferred are refused, whatever takes them", async () => {
    const gone = (): Uint8Array<ArrayBuffer> => {
      const bytes = new Uint8Array(8);
      structuredClone(bytes, { transfer: [bytes.buffer] });
      return bytes;
    };
    const refused = { code: "usage/detached-bytes" };
    await expect(inspect(gone())).rejects.toMatchObject(refused);
    await expect(inspect(gone().buffer)).rejects.toMatchObject(refused);
    const tensor = { name: "w", dtype: "U8", shape: [8], data: gone() } as const;
    expect(() => createModel([tensor])).toThrow(expect.objectContaining(refused));
    const metadata = { note: gone() };
    expect(() => createModel([], { metadata })).toThrow(expect.objectContaining(refused));
  });
});

describe("verify()", () => {
  test("never throws because of what is in the file", async () => {
    for (const bytes of [bytesOf("cut.gguf"), bytesOf("notes.txt"), new Uint8Array(0), new Uint8Array(64).fill(0x47)]) {
      const found: string[] = [];
      const opening = await list(bytes).catch((error: { code: string }) => error.code);
      const result = await verify(bytes, { onFinding: ({ code }) => found.push(code) }).catch(
        (error: { code: string }) => error.code,
      );
      // What is no model at all is not damaged: that is the other kind of error, as for the command.
      if (typeof result === "string") expect(result).toMatch(/^unsupported\//);
      else expect([result.ok, result.findings.map(({ code }) => code)]).toEqual([false, [opening]]);
      expect(found).toEqual(typeof result === "string" ? [] : [opening]);
    }
  });

  test("tells each finding once, those of the result and no others", async () => {
    const found: unknown[] = [];
    const result = await verify(at("damaged.aero"), { onFinding: (finding) => found.push(finding) });
    expect(result.ok).toBe(false);
    expect(new Set(found)).toEqual(new Set(result.findings));
    expect(found).toHaveLength(result.findings.length);
  });

  test("compares with digests of an earlier result, alone or in a file", async () => {
    const earlier = await verify(at("m.gguf"), { digest: "sha256" });
    writeFileSync(at("digests.json"), JSON.stringify(earlier));
    for (const digests of [earlier, earlier.digests ?? [], at("digests.json")]) {
      expect(await verify(at("m.gguf"), { digests })).toMatchObject({ ok: true, weights: "compared" });
      expect(await verify(at("half.safetensors"), { digests })).toMatchObject({ ok: false });
    }
    expect(plain(await verify(at("m.gguf"), { digests: earlier }))).toEqual(
      await documentOf(["verify", at("m.gguf"), "--digests", "digests.json"], folder),
    );
    for (const digests of [{ ok: true }, [], [{ name: "a", algorithm: "md5", hex: "00" }]])
      await expect(verify(at("m.gguf"), { digests: digests as never })).rejects.toMatchObject({
        code: "usage/digest-list",
      });
  });

  test("takes keys as PEM text, PEM bytes, DER bytes and paths", async () => {
    const pem = readFileSync(at("release.pub"), "utf8");
    const der = Buffer.from(pem.replace(/-----[A-Z ]+-----|\s/g, ""), "base64");
    for (const publicKey of [pem, Buffer.from(pem), new Uint8Array(der), at("release.pub")])
      expect((await verify(at("m.gguf"), { publicKey })).weights).toBe("compared");
    for (const publicKey of [der.subarray(0, 20), new Uint8Array(0), readFileSync(at("release.key"))])
      await expect(verify(at("m.gguf"), { publicKey })).rejects.toMatchObject({
        code: expect.stringMatching(/^(usage\/key\.pem|unsupported\/key\.algorithm)$/) as string,
      });
    // A path means nothing without a file system, and is not repeated: it could be a key without its frame.
    const { message } = (await verifyPortable(bytesOf("m.gguf"), { publicKey: "secret" }).catch(
      (error) => error,
    )) as Error;
    expect(message).not.toContain("secret");
  });
});

test.each([
  ["list", () => list("no.gguf", { globs: "*" } as never), "usage/unknown-option"],
  ["list", () => list("no.gguf", { glob: 7 } as never), "usage/option-value"],
  ["map", () => map("no.gguf", { glob: "*" } as never), "usage/unknown-option"],
  ["diff", () => diff("no.gguf", "no.gguf", { tolerance: -1 }), "usage/option-value"],
  ["diff", () => diff("no.gguf", "no.gguf", { tolerance: Number.NaN }), "usage/option-value"],
  ["stats", () => stats("no.gguf", { hist: 0 }), "usage/option-value"],
  ["stats", () => stats("no.gguf", { hist: 1e9 }), "usage/option-value"],
  ["verify", () => verify("no.gguf", { level: "deep" as never }), "usage/option-value"],
  ["verify", () => verify("no.gguf", { level: "full", remote: true }), "usage/arguments"],
  ["verify", () => verify("no.gguf", { publicKey: 7 as never }), "usage/option-value"],
  ["sign", () => sign("no.gguf", undefined as never), "usage/option-missing"],
  ["sign", () => sign("no.gguf", { key: "x", keys: "y" } as never), "usage/unknown-option"],
] as const)("%s() refuses wrong options before anything is opened", async (_what, call, code) => {
  await expect(call()).rejects.toMatchObject({ code });
});

describe("abort", () => {
  const reason = new Error("enough");
  const calls = {
    list: (signal: AbortSignal) => list(at("m.gguf"), { signal }),
    map: (signal: AbortSignal) => map(at("m.gguf"), { signal }),
    diff: (signal: AbortSignal) => diff(at("m.gguf"), at("half.safetensors"), { signal }),
    stats: (signal: AbortSignal) => stats(at("m.gguf"), { signal }),
    verify: (signal: AbortSignal) => verify(at("m.gguf"), { signal }),
  };

  test.each(Object.entries(calls))("%s() notices a signal that is aborted already", async (_what, call) => {
    await expect(call(AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test.each([
    ["stats", (signal: AbortSignal, onProgress: () => void) => stats(at("m.gguf"), { signal, onProgress })],
    [
      "diff",
      (signal: AbortSignal, onProgress: () => void) => diff(at("m.gguf"), bytesOf("m.gguf"), { signal, onProgress }),
    ],
    [
      "verify",
      (signal: AbortSignal, onProgress: () => void) => verify(at("m.aero"), { signal, onProgress, digest: "sha256" }),
    ],
  ])("%s() rejects with the reason in the middle", async (_what, call) => {
    const control = new AbortController();
    await expect(call(control.signal, () => control.abort(reason))).rejects.toBe(reason);
  });
});

test("progress begins with nothing and ends with all", async () => {
  const name = await first("m.gguf");
  const calls = [
    (onProgress: (event: object) => void) => stats(at("m.gguf"), { onProgress, glob: name }),
    (onProgress: (event: object) => void) => diff(at("m.gguf"), at("half.safetensors"), { onProgress }),
    (onProgress: (event: object) => void) => verify(at("m.aero"), { onProgress }),
  ];
  for (const call of calls) {
    const events: { done?: number; total?: number | null }[] = [];
    await call((event) => events.push(event));
    expect(events[0]?.done).toBe(0);
    expect(events.at(-1)?.done).toBe(events.at(-1)?.total);
    expect(Object.keys(events[0] ?? {}).sort()).toEqual(["bytesPerSecond", "done", "label", "total", "type"]);
  }
});
