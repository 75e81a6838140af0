import { describe, expect, test } from "vitest";
import { expectBytes, patternBytes, sourceContract } from "../../../test/contracts/source-contract.ts";
import { MODEL, seed, startStore, startTestStore } from "../../../test/support/s3-tools.ts";
import { openS3, parseS3Address, s3Resolver } from "./open.ts";

sourceContract("s3", async (bytes) => {
  const { server, client, close } = await startStore();
  seed(server, MODEL.key, bytes);
  return { source: await openS3(client, MODEL, { headBytes: 4096 }), dispose: close };
});

describe("openS3()", () => {
  test("opens with one signed request and reads ranges", async () => {
    const { server, client } = await startTestStore();
    const bytes = patternBytes(300_000);
    seed(server, MODEL.key, bytes);
    const source = await openS3(client, MODEL, { headBytes: 1000 });
    expect(source.label).toBe("s3://models/folder/a model+.bin");
    expect(source.byteLength).toBe(300_000);
    expectBytes(await source.read(200_000, 500), bytes.slice(200_000, 200_500));
    expect(server.requests.map(({ method, headers }) => [method, headers.range])).toEqual([
      ["GET", "bytes=0-999"],
      ["GET", expect.stringMatching(/^bytes=200000-/)],
    ]);
  });
  test("learns the region that the store names, and keeps it", async () => {
    const { server, client } = await startTestStore({ region: "eu-central-1" });
    seed(server, MODEL.key, patternBytes(5000));
    const source = await openS3(client, MODEL, { headBytes: 100 });
    expect(server.requests).toHaveLength(2);
    await source.read(4000, 10);
    expect(server.requests).toHaveLength(3);
    expect(client.session.endpoint.region).toBe("eu-central-1");
  });
  test("corrects a clock that is hours off", async () => {
    const { server, client } = await startTestStore({ clockMs: 5 * 3_600_000 });
    seed(server, MODEL.key, patternBytes(10));
    await expect(openS3(client, MODEL)).resolves.toMatchObject({ byteLength: 10 });
    expect(server.requests).toHaveLength(2);
  });
  test("reads public objects without credentials", async () => {
    const { server, client } = await startTestStore({ access: "public-read" }, { credentials: undefined });
    seed(server, MODEL.key, patternBytes(10));
    await expect(openS3(client, MODEL)).resolves.toMatchObject({ byteLength: 10 });
    expect(server.requests[0]?.headers.authorization).toBeUndefined();
  });
  test("waits and retries if the store asks to slow down", async () => {
    const { server, client, waits } = await startTestStore();
    seed(server, MODEL.key, patternBytes(10));
    server.setHook((_, response) => {
      if (server.requests.length > 2) return undefined;
      response.statusCode = 503;
      response.end("<Error><Code>SlowDown</Code></Error>");
      return "handled";
    });
    const sleep = async (milliseconds: number): Promise<void> => void waits.push(milliseconds);
    await expect(openS3(client, MODEL, { retry: { sleep } })).resolves.toMatchObject({ byteLength: 10 });
    expect(waits).toHaveLength(2);
  });
});

describe("refusals of a store", () => {
  test("a missing object and a missing bucket are not found", async () => {
    const { client } = await startTestStore();
    await expect(openS3(client, MODEL)).rejects.toMatchObject({
      code: "source/not-found",
      message: expect.stringContaining("no such object"),
      at: { source: "s3://models/folder/a model+.bin" },
    });
    await expect(openS3(client, parseS3Address("s3://other/x"))).rejects.toMatchObject({
      code: "source/not-found",
      message: expect.stringContaining("no such bucket"),
    });
  });
  test("a wrong secret is forbidden, and the error shows nothing secret", async () => {
    const credentials = { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "hush-hush" };
    const { client } = await startTestStore({}, { credentials });
    const error = await openS3(client, MODEL).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "source/s3.forbidden",
      hint: expect.stringContaining("AWS_SECRET_ACCESS_KEY"),
    });
    const shown = JSON.stringify([error, (error as Error).message, (error as Error).stack]);
    expect(shown).not.toMatch(/hush|Signature=|Credential=/);
  });
  test("an unknown key is forbidden, and its id is not repeated", async () => {
    const credentials = { accessKeyId: "SOMEBODYELSE", secretAccessKey: "hush-hush" };
    const { client } = await startTestStore({}, { credentials });
    const error = await openS3(client, MODEL).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "source/s3.forbidden", hint: expect.stringContaining("AWS_ACCESS_KEY_ID") });
    expect((error as Error).message).not.toContain("SOMEBODYELSE");
  });
  test("reads at most 64 KiB of an error document, and reports any other reply by its status", async () => {
    const { server, client } = await startTestStore();
    server.setHook((_, response) => {
      response.statusCode = 403;
      response.end(`<Error><Code>${"x".repeat(1 << 20)}</Code></Error>`);
      return "handled";
    });
    await expect(openS3(client, MODEL)).rejects.toMatchObject({
      code: "source/s3.forbidden",
      message: 'Cannot open "s3://models/folder/a model+.bin": the store refuses access (403)',
    });
  });
});

describe("s3Resolver()", () => {
  const opened: string[] = [];
  const resolver = s3Resolver(MODEL, async (address) => {
    opened.push(address.key);
    throw new Error("enough");
  });
  test("opens siblings below the same prefix", async () => {
    expect(resolver.name).toBe("a model+.bin");
    await resolver.resolve("parts/b.bin").catch(() => undefined);
    expect(opened).toEqual(["folder/parts/b.bin"]);
  });
  test.each(["../b.bin", "/b.bin", "a\\b", ""])("refuses %j", async (name) => {
    await expect(resolver.resolve(name)).rejects.toMatchObject({ code: "source/resolver.escape" });
  });
});

describe("S3Client.list()", () => {
  test("groups deeper keys, over several pages", async () => {
    const { server, client } = await startTestStore();
    for (const key of ["m/a&b.aero", "m/b.aero", "m/c.aero", "m/d.aero", "m/sub/e.aero", "n/f.aero"]) {
      seed(server, key, patternBytes(3));
    }
    const { objects, prefixes } = await client.list(parseS3Address("s3://models/m/"));
    expect(objects.map(({ key }) => key)).toEqual(["m/a&b.aero", "m/b.aero", "m/c.aero", "m/d.aero"]);
    expect(prefixes).toEqual(["m/sub/"]);
    expect(server.requests.length).toBeGreaterThan(1);
  });
});
