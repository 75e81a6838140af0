import { describe, expect, test } from "vitest";
import { encodeHex, encodeUtf8 } from "../../base/text.ts";
import { portableEngine } from "../../primitives/portable.ts";
import { canonicalRequest, EMPTY_SHA256, encodeRfc3986, hmacSha256, type Sha256, SigV4 } from "./sigv4.ts";

const engine = portableEngine({ tier: "javascript" });
const sha256: Sha256 = (bytes) => engine.digest("sha256", bytes);

const UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

interface Vector {
  readonly name: string;
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signature: string;
}

/** Amazon's aws-sig-v4-test-suite, without the cases for path normalisation, which S3 does not do. */
const SUITE: readonly Vector[] = [
  { name: "get-vanilla", signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31" },
  {
    name: "get-vanilla-empty-query-key",
    path: "/?Param1=value1",
    signature: "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
  },
  {
    name: "get-vanilla-query-order-key",
    path: "/?Param1=value2&Param1=Value1",
    signature: "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1",
  },
  {
    name: "get-vanilla-query-order-key-case",
    path: "/?Param2=value2&Param1=value1",
    signature: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
  },
  {
    name: "get-vanilla-query-order-value",
    path: "/?Param1=value2&Param1=value1",
    signature: "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
  },
  {
    name: "get-vanilla-query-unreserved",
    path: `/?${UNRESERVED}=${UNRESERVED}`,
    signature: "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
  },
  {
    name: "get-vanilla-utf8-query",
    path: "/?\u1234=bar",
    signature: "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
  },
  {
    name: "get-unreserved",
    path: `/${UNRESERVED}`,
    signature: "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
  },
  {
    name: "get-utf8",
    path: "/\u1234",
    signature: "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
  },
  {
    name: "get-space",
    path: "/example space/",
    signature: "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
  },
  {
    name: "get-header-value-trim",
    headers: { "my-header1": " value1", "my-header2": ' "a   b   c"' },
    signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
  },
  {
    name: "post-vanilla",
    method: "POST",
    signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
  },
  {
    name: "post-header-key-sort",
    method: "POST",
    headers: { "my-header1": "value1" },
    signature: "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
  },
  {
    name: "post-header-value-case",
    method: "POST",
    headers: { "my-header1": "VALUE1" },
    signature: "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
  },
  {
    name: "post-x-www-form-urlencoded",
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: "Param1=value1",
    signature: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
  },
];

/** The five worked examples of "Authenticating Requests" in the Amazon S3 API reference. */
const S3_EXAMPLES: readonly Vector[] = [
  {
    name: "GET object with a range",
    path: "/test.txt",
    headers: { range: "bytes=0-9", "x-amz-content-sha256": EMPTY_SHA256 },
    signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  },
  {
    name: "PUT object",
    method: "PUT",
    path: "/test%24file.text",
    headers: {
      date: "Fri, 24 May 2013 00:00:00 GMT",
      "x-amz-storage-class": "REDUCED_REDUNDANCY",
      "x-amz-content-sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
    },
    body: "Welcome to Amazon S3.",
    signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  },
  {
    name: "GET bucket lifecycle",
    path: "/?lifecycle",
    headers: { "x-amz-content-sha256": EMPTY_SHA256 },
    signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  },
  {
    name: "GET bucket, list objects",
    path: "/?max-keys=2&prefix=J",
    headers: { "x-amz-content-sha256": EMPTY_SHA256 },
    signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  },
];

const SUITE_KEY = {
  credentials: { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" },
  region: "us-east-1",
  service: "service",
  time: new Date("2015-08-30T12:36:00Z"),
};
const S3_KEY = {
  credentials: { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" },
  region: "us-east-1",
  service: "s3",
  time: new Date("2013-05-24T00:00:00Z"),
};

async function signatureOf(vector: Vector, host: string, key: typeof S3_KEY): Promise<string | undefined> {
  const { method = "GET", path = "/", headers = {}, body = "" } = vector;
  const payloadHash = encodeHex(await sha256(encodeUtf8(body)));
  const url = new URL(path, `https://${host}`).href;
  const signed = await new SigV4(sha256).sign({ method, url, headers, payloadHash }, key);
  return signed["authorization"]?.split("Signature=")[1];
}

describe("SigV4.sign()", () => {
  test.each(SUITE)("gives the signature of the AWS test suite: $name", async (vector) => {
    expect(await signatureOf(vector, "example.amazonaws.com", SUITE_KEY)).toBe(vector.signature);
  });
  test.each(S3_EXAMPLES)("gives the signature of the S3 reference: $name", async (vector) => {
    expect(await signatureOf(vector, "examplebucket.s3.amazonaws.com", S3_KEY)).toBe(vector.signature);
  });
  test("names the key, the scope and the signed headers", async () => {
    const url = "https://example.amazonaws.com/";
    const signed = await new SigV4(sha256).sign(
      { method: "GET", url, headers: {}, payloadHash: EMPTY_SHA256 },
      SUITE_KEY,
    );
    expect(signed).toEqual({
      "x-amz-date": "20150830T123600Z",
      authorization:
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    });
  });
  test("also signs the token of temporary credentials", async () => {
    const credentials = { ...SUITE_KEY.credentials, sessionToken: "token" };
    const request = { method: "GET", url: "https://example.amazonaws.com/", headers: {}, payloadHash: EMPTY_SHA256 };
    const signed = await new SigV4(sha256).sign(request, { ...SUITE_KEY, credentials });
    expect(signed["x-amz-security-token"]).toBe("token");
    expect(signed["authorization"]).toContain("SignedHeaders=host;x-amz-date;x-amz-security-token");
  });
  test("derives a new key for another day and region", async () => {
    const signer = new SigV4(sha256);
    const request = { method: "GET", url: "https://example.amazonaws.com/", headers: {}, payloadHash: EMPTY_SHA256 };
    const other = await signer.sign(request, { ...SUITE_KEY, region: "eu-west-1" });
    const first = await signer.sign(request, SUITE_KEY);
    expect(other["authorization"]).not.toBe(first["authorization"]);
    expect(first["authorization"]).toContain("5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  });
});

describe("SigV4.presign()", () => {
  test("gives the URL of the S3 reference", async () => {
    const url = await new SigV4(sha256).presign("GET", "https://examplebucket.s3.amazonaws.com/test.txt", {
      ...S3_KEY,
      expiresSeconds: 86_400,
    });
    expect(url).toBe(
      "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    );
  });
});

describe("canonicalRequest()", () => {
  test("encodes a path once and leaves dot segments and double slashes of a key to S3", () => {
    const url = "https://host/a%20b//c%2Fd!'()*?x=1+2&a";
    const lines = canonicalRequest({ method: "GET", url, headers: { host: "host" }, payloadHash: "p" }).split("\n");
    expect(lines.slice(0, 3)).toEqual(["GET", "/a%20b//c%2Fd%21%27%28%29%2A", "a=&x=1%2B2"]);
  });
});

describe("hmacSha256()", () => {
  // RFC 4231, test cases 2 and 6.
  test("agrees with RFC 4231 for short keys and for keys longer than a block", async () => {
    const short = await hmacSha256(sha256, encodeUtf8("Jefe"), encodeUtf8("what do ya want for nothing?"));
    expect(encodeHex(short)).toBe("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    const text = "Test Using Larger Than Block-Size Key - Hash Key First";
    const long = await hmacSha256(sha256, new Uint8Array(131).fill(0xaa), encodeUtf8(text));
    expect(encodeHex(long)).toBe("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  });
});

describe("encodeRfc3986()", () => {
  test("encodes everything but the unreserved characters, and half a surrogate pair as U+FFFD", () => {
    expect(encodeRfc3986("a b/!'()*~\u00e9")).toBe("a%20b%2F%21%27%28%29%2A~%C3%A9");
    expect(encodeRfc3986("\ud800")).toBe("%EF%BF%BD");
  });
});
