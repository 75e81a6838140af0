import { describe, expect, test } from "vitest";
import { objectUrl, parseS3Address, regionOfHost, type S3Endpoint } from "./address.ts";
import { partAt, planPartBytes } from "./commit.ts";

const AMAZON: S3Endpoint = { region: "eu-west-1", addressing: "virtual-host" };
const LOCAL: S3Endpoint = { region: "us-east-1", url: "http://127.0.0.1:9000/", addressing: "path" };

describe("parseS3Address()", () => {
  test.each([
    ["s3://bucket/a/b c.gguf", "bucket", "a/b c.gguf"],
    ["S3://my.bucket-1/", "my.bucket-1", ""],
    ["s3://bucket", "bucket", ""],
    ["s3://bucket/a%20b?x#y", "bucket", "a%20b?x#y"],
    ["s3://bucket//double", "bucket", "/double"],
  ])("splits %s", (text, bucket, key) => {
    expect(parseS3Address(text)).toMatchObject({ bucket, key });
  });
  test.each([
    "s3://",
    "s3:///key",
    "s3://id:secret@bucket/key",
    "s3://b cket/k",
    "s3://bucket/a/../b",
    "s3://bucket/./b",
    `s3://bucket/${"k".repeat(1025)}`,
  ])("refuses %s without repeating it", (text) => {
    expect(() => parseS3Address(text)).toThrow(
      expect.objectContaining({ code: "usage/s3.address", message: expect.not.stringContaining("secret") }),
    );
  });
  test.each([
    ["s3://b/key", "found 1"],
    [`s3://${"b".repeat(256)}/key`, "found 256"],
    ["s3:///key", "found none"],
    ["s3://-bucket/key", 'found "-" first'],
    ["s3://b:cket/key", "found other characters"],
  ])("names the fault in the bucket of %s", (text, reason) => {
    expect(() => parseS3Address(text)).toThrow(reason);
  });
});

describe("objectUrl()", () => {
  test("puts the bucket into the host for Amazon and into the path elsewhere", () => {
    const address = { bucket: "bucket", key: "a b/c+d(1).gguf" };
    expect(objectUrl(address, AMAZON)).toBe("https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c%2Bd%281%29.gguf");
    expect(objectUrl(address, LOCAL)).toBe("http://127.0.0.1:9000/bucket/a%20b/c%2Bd%281%29.gguf");
    const china = { ...AMAZON, region: "cn-north-1" };
    expect(objectUrl({ bucket: "b2", key: "" }, china)).toBe("https://b2.s3.cn-north-1.amazonaws.com.cn/");
  });
  test("keeps a bucket with a dot out of the host, because no certificate would match", () => {
    const url = objectUrl({ bucket: "my.bucket", key: "k" }, AMAZON);
    expect(url).toBe("https://s3.eu-west-1.amazonaws.com/my.bucket/k");
  });
});

describe("regionOfHost()", () => {
  test.each([
    ["bucket.s3.eu-west-1.amazonaws.com", "eu-west-1"],
    ["s3-us-west-2.amazonaws.com", "us-west-2"],
    ["b.s3.cn-north-1.amazonaws.com.cn", "cn-north-1"],
    ["s3.eu-west-1.amazonaws.com.evil.example", undefined],
    ["127.0.0.1", undefined],
  ])("%s: %s", (host, region) => {
    expect(regionOfHost(host)).toBe(region);
  });
});

describe("partAt()", () => {
  const MIB = 1 << 20;
  test("covers every byte once, in parts that grow", () => {
    let offset = 0;
    for (let number = 1; number <= 10_000; number++) {
      const part = partAt(offset, 16 * MIB, "x");
      expect([part.number, part.offset]).toEqual([number, offset]);
      offset += part.byteLength;
      if (offset >= 5 * 2 ** 40) break;
    }
    expect(offset).toBeGreaterThanOrEqual(5 * 2 ** 40);
  });
  test("refuses lengths that no store accepts", () => {
    expect(() => partAt(5 * 2 ** 40, 16 * MIB, "x")).toThrow(expect.objectContaining({ code: "limit/s3.object" }));
    expect(() => planPartBytes(5 * 2 ** 40 + 1, 16 * MIB, "x")).toThrow(
      expect.objectContaining({ code: "limit/s3.object" }),
    );
  });
  test("planPartBytes() keeps within 10,000 parts", () => {
    expect(planPartBytes(100, 16 * MIB, "x")).toBe(16 * MIB);
    const large = planPartBytes(5 * 2 ** 40, 16 * MIB, "x");
    expect(Math.ceil((5 * 2 ** 40) / large)).toBeLessThanOrEqual(10_000);
  });
});
