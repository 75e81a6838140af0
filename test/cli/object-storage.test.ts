import { readFileSync, writeFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, onTestFinished, test } from "vitest";
import { KEY, type S3Server, type S3ServerOptions, startS3Server } from "../support/s3-server.ts";
import { callTare, type Run, scratch } from "./run-tare.ts";
import { smallSafetensors } from "./small-models.ts";

interface Store {
  readonly server: S3Server;
  readonly path: ReturnType<typeof scratch>;
  run(...args: readonly string[]): Promise<Run>;
}

/** The program with a store of its own in its environment. */
async function start(options: S3ServerOptions = {}, env: Readonly<Record<string, string>> = {}): Promise<Store> {
  const server = await startS3Server(options);
  onTestFinished(() => server.close());
  const path = scratch();
  const environment = {
    HOME: path("home"),
    TARE_CACHE: path("cache"),
    AWS_PROFILE: "",
    AWS_REGION: "us-east-1",
    AWS_SESSION_TOKEN: "",
    AWS_ENDPOINT_URL_S3: server.endpoint,
    AWS_ACCESS_KEY_ID: KEY.accessKeyId,
    AWS_SECRET_ACCESS_KEY: KEY.secretAccessKey,
    ...env,
  };
  return { server, path, run: (...args) => callTare(args, { env: environment }) };
}

describe("s3:// as a target", () => {
  test("convert writes an object that every command reads", async () => {
    const { path, run } = await start();
    const local = path("m.safetensors", smallSafetensors());
    expect(await run("convert", local, "s3://models/a/m.aero", "--verify")).toMatchObject({ code: 0, err: "" });
    expect(await run("verify", "s3://models/a/m.aero", "--full")).toMatchObject({ code: 0 });
    expect((await run("ls", "s3://models/a/")).out).toContain("model.embed_tokens.weight");
    expect(await run("convert", "s3://models/a/m.aero", path("back.safetensors"))).toMatchObject({ code: 0 });
    expect(new Uint8Array(readFileSync(path("back.safetensors")))).toEqual(new Uint8Array(smallSafetensors()));
  });
  test("convert writes an AEROSET, its JSON last, and leaves nothing else", async () => {
    const { server, path, run } = await start();
    const local = path("m.safetensors", smallSafetensors());
    const written = await run("convert", local, "s3://models/set/m.aeroset.json");
    expect(written).toMatchObject({ code: 0 });
    expect([...server.objects.keys()].at(-1)).toBe("set/m.aeroset.json");
    expect(await run("verify", "s3://models/set/", "--full")).toMatchObject({ code: 0 });
    expect(server.uploads.size).toBe(0);
  });
  test("refuses to replace an object without --force", async () => {
    const { path, run } = await start();
    const local = path("m.safetensors", smallSafetensors());
    expect(await run("convert", local, "s3://models/m.gguf")).toMatchObject({ code: 0 });
    expect(await run("convert", local, "s3://models/m.gguf")).toMatchObject({ code: 2 });
    expect(await run("convert", local, "s3://models/m.gguf", "--force")).toMatchObject({ code: 0 });
  });
  test("a missing object is exit 9, a wrong key exit 8 without a word of the secret", async () => {
    const store = await start();
    expect(await store.run("inspect", "s3://models/none.aero")).toMatchObject({ code: 9 });
    expect(await store.run("inspect", "s3://models/")).toMatchObject({ code: 9 });
    const wrong = await start({}, { AWS_SECRET_ACCESS_KEY: "hush-hush" });
    const refused = await wrong.run("inspect", "s3://models/none.aero", "-v");
    expect(refused).toMatchObject({ code: 8, err: expect.stringContaining("source/s3.forbidden") });
    expect(refused.err + refused.out).not.toMatch(/hush|Signature=|Credential=/);
  });
});

describe("push", () => {
  test("uploads a file, and refuses to do it twice", async () => {
    const { server, path, run } = await start();
    const local = path("m.safetensors", smallSafetensors());
    expect((await run("push", local, "s3://models/p/", "--dry-run")).out).toContain("would write s3://models/p/m.");
    expect(server.objects.size).toBe(0);
    const pushed = await run("push", local, "s3://models/p/", "--json");
    const schema = JSON.parse(readFileSync(new URL("../../schemas/push.schema.json", import.meta.url), "utf8"));
    const validate = new Ajv2020().compile(schema as object);
    expect(validate(JSON.parse(pushed.out)) ? [] : validate.errors).toEqual([]);
    expect(server.objects.get("p/m.safetensors")?.bytes.equals(Buffer.from(smallSafetensors()))).toBe(true);
    expect(await run("push", local, "s3://models/p/")).toMatchObject({ code: 2 });
  });
  test("uploads a set from its index, which comes last", async () => {
    const { server, path, run } = await start();
    const index = path("m.aeroset.json");
    await run("convert", path("m.safetensors", smallSafetensors()), index);
    expect(await run("push", index, "s3://models/p/")).toMatchObject({ code: 0 });
    expect([...server.objects.keys()]).toHaveLength(3);
    expect([...server.objects.keys()].at(-1)).toBe("p/m.aeroset.json");
    expect(await run("verify", "s3://models/p/", "--full")).toMatchObject({ code: 0 });
  });
  test("goes on after a failure in the middle, and starts over with a file that changed", async () => {
    const { server, path, run } = await start();
    const bytes = new Uint8Array(17 << 20).map((_, i) => i * 7);
    const args = [
      "push",
      path("big.bin", bytes),
      "s3://models/big",
      "--part-size",
      "5MiB",
      "--concurrency",
      "1",
      "--json",
    ];
    const failAfter = (count: number): void => {
      let parts = 0;
      server.setHook(({ query }, response) => {
        if (!query.has("partNumber") || parts++ < count) return undefined;
        response.statusCode = 403;
        response.end();
        return "handled";
      });
    };
    failAfter(2);
    expect(await run(...args)).toMatchObject({ code: 8 });
    server.setHook(undefined);
    expect(JSON.parse((await run(...args)).out)).toMatchObject({ sentBytes: 7 << 20, byteLength: 17 << 20 });
    expect(server.objects.get("big")?.bytes.equals(Buffer.from(bytes))).toBe(true);
    server.objects.clear();
    failAfter(2);
    await run(...args);
    server.setHook(undefined);
    writeFileSync(path("big.bin"), bytes.fill(9));
    expect(JSON.parse((await run(...args)).out)).toMatchObject({ sentBytes: 17 << 20 });
    expect(server.uploads.size).toBe(0);
  });
  test("wants a destination in a store and a file that is there", async () => {
    const { path, run } = await start();
    expect(await run("push", path("a", "x"), "https://host/x")).toMatchObject({ code: 2 });
    expect(await run("push", path("missing"), "s3://models/x")).toMatchObject({ code: 9 });
    expect(await run("push", path("a"), "s3://models/x", "--offline")).toMatchObject({ code: 8 });
    expect(await run("push", path("a"), "s3://models/x", "--part-size", "1MiB")).toMatchObject({ code: 2 });
  });
});
