import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COMMANDS } from "../../cli/commands/registry.ts";
import { buildApr1, f32 } from "../builders/apr-layouts.ts";
import { folder as pulledFolder, serve } from "../pull/pull-into.ts";
import { KEY, startS3Server } from "../support/s3-server.ts";
import { callTare, scratch } from "./run-tare.ts";
import { smallGguf, smallSafetensors } from "./small-models.ts";

/** Commands that only say what they did, in an order in which each has what the ones before it made. */
const DOES: readonly (readonly [command: string, ...args: string[]])[] = [
  ["keygen", "-o", "release"],
  ["convert", "m.safetensors", "c.aero"],
  ["convert", "m.safetensors", "set/", "--to", "aeroset", "--max-shard-size", "16", "--max-part-shards", "2"],
  ["sign", "c.aero", "--key", "release.key"],
  ["cat", "m.gguf", "blk.0.attn_norm.weight", "-o", "w.bin"],
  ["extract", "m.safetensors", "*norm*", "-o", "out"],
  ["upgrade", "old.apr", "new.apr"],
  ["stamp", "m.gguf", "--set", "general.name=n"],
  ["shard", "m.safetensors", "-o", "shards", "--max-size", "16"],
  ["merge", "shards/m.safetensors.index.json", "-o", "merged.safetensors"],
  ["quantize", "m.safetensors", "q.safetensors", "-t", "q8_0"],
  ["dequantize", "m.gguf", "d.gguf", "-t", "f16"],
  ["cache", "prune"],
  ["cache", "clear"],
  ["demo", "demo"],
  ["vault create", "v", "--password-file", "pw"],
  ["vault add", "v", "m.gguf", "m.safetensors", "--password-file", "pw"],
  ["vault mkdir", "v", "d", "--password-file", "pw"],
  ["vault mv", "v", "m.gguf", "d/", "--password-file", "pw"],
  ["vault cp", "v", "d/m.gguf", "copy.gguf", "--password-file", "pw"],
  ["vault rm", "v", "copy.gguf", "--password-file", "pw"],
  ["vault cat", "v", "d/m.gguf", "-o", "entry.bin", "--password-file", "pw"],
  ["vault extract", "v", "-o", "files", "--password-file", "pw"],
  ["vault parity", "v", "embed", "--password-file", "pw"],
  ["vault parity", "v", "export", "--password-file", "pw"],
  ["vault repair", "v", "--password-file", "pw"],
  ["vault compact", "v", "--password-file", "pw"],
  ["vault passwd", "v", "--password-file", "pw", "--new-password-file", "pw2"],
  ["correct gen", "m.gguf"],
  ["correct repair", "m.gguf"],
];

/** Commands that need more than files: a server, a store, a set whose part is replaced. They have tests below. */
const ELSEWHERE = ["push", "pull", "aeroset"];

/** Commands whose output is what the user asks for: -q leaves out notes and progress. */
const SHOWS =
  "inspect ls map meta diff stats view verify serve embed doctor explain completion,vault ls,vault info,vault diff,vault scrub,correct verify"
    .split(",")
    .flatMap((names) => (names.includes("vault") || names.includes("correct") ? [names] : names.split(" ")));

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tare-quiet-"));
  const { writeFileSync } = await import("node:fs");
  writeFileSync(join(folder, "m.safetensors"), smallSafetensors());
  writeFileSync(join(folder, "m.gguf"), smallGguf());
  writeFileSync(join(folder, "old.apr"), buildApr1('{"model":"t"}', [{ name: "w", shape: [2], bytes: f32(1, 2) }]));
  writeFileSync(join(folder, "pw"), "a long secret");
  writeFileSync(join(folder, "pw2"), "another secret");
});
afterAll(() => rmSync(folder, { recursive: true }));

const NOTHING = { code: 0, out: "", err: "" };

describe("-q", () => {
  it("is known for every command: it does something, or shows something", () => {
    const known = new Set([...DOES.map(([command]) => command), ...ELSEWHERE, ...SHOWS]);
    expect(COMMANDS.map(({ name }) => name).filter((name) => !known.has(name))).toEqual([]);
  });

  it.each(DOES.map((words) => [words.slice(0, 2).join(" "), words] as const))(
    "prints nothing where all is well: %s",
    async (_, [command, ...args]) => {
      const env = { TARE_CACHE: join(folder, "cache"), TARE_CACHE_SIZE: "1MB" };
      const words = [...command.split(" "), ...args, "-q"];
      expect(await callTare(words, { cwd: folder, env })).toMatchObject(NOTHING);
    },
  );

  it("prints nothing for pull", async () => {
    const server = await serve({ "m.safetensors": smallSafetensors() });
    const args = ["pull", `${server.url}m.safetensors`, "-o", pulledFolder(), "-q"];
    expect(await callTare(args)).toMatchObject(NOTHING);
  });

  it("prints nothing for push", async () => {
    const server = await startS3Server({});
    const file = scratch();
    const env = {
      HOME: file("home"),
      AWS_PROFILE: "",
      AWS_REGION: "us-east-1",
      AWS_SESSION_TOKEN: "",
      AWS_ENDPOINT_URL_S3: server.endpoint,
      AWS_ACCESS_KEY_ID: KEY.accessKeyId,
      AWS_SECRET_ACCESS_KEY: KEY.secretAccessKey,
    };
    const run = await callTare(["push", file("m.gguf", smallGguf()), "s3://models/m.gguf", "-q"], { env });
    await server.close();
    expect(run).toMatchObject(NOTHING);
  });

  it("prints nothing for aeroset update", async () => {
    const file = scratch();
    const cut = ["--to", "aeroset", "--max-shard-size", "16", "--max-part-shards", "2"];
    await callTare(["convert", file("m.safetensors", smallSafetensors()), `${file("set")}/`, ...cut]);
    await callTare(["convert", join(file("set"), "part-001.aero"), file("part.aero"), "--dtype", "f32"]);
    expect(await callTare(["aeroset", "update", file("set"), file("part.aero"), "-q"])).toMatchObject(NOTHING);
  });

  it("leaves a document, and what is wrong", async () => {
    const file = scratch();
    const input = file("m.gguf", smallGguf());
    const made = await callTare(["convert", input, file("m.aero"), "-q", "--json"]);
    expect(JSON.parse(made.out)).toMatchObject({ format: "aero" });
    expect(await callTare(["convert", input, file("m.aero"), "-q"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("usage/exists"),
    });
  });

  it("leaves a report that was asked for", async () => {
    const file = scratch();
    const args = ["quantize", file("m.gguf", smallGguf()), file("q.gguf"), "-t", "q8_0", "--report", "-q"];
    const { code, out } = await callTare(args);
    expect(code).toBe(0);
    expect(out).not.toBe("");
    expect(out).not.toContain("wrote");
  });
});
