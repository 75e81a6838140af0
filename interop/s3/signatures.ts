import { createHash } from "node:crypto";
import { type Credentials, type Sha256, SigV4 } from "../../src/bytes/s3/sigv4.ts";
import { Outcome } from "../outcome.ts";
import type { Amazon } from "./amazon.ts";

const sha256: Sha256 = async (bytes) => new Uint8Array(createHash("sha256").update(bytes).digest());
const KEYS = ["model.gguf", "a b/c+d&e=f.aero", "ünïcode/模型.safetensors", "x//y/z~(1)!*'.bin", "%41/%/a:b@c,d;e"];
const QUERIES = ["", "uploads=", "partNumber=7&uploadId=a%2Fb%2B%3D", "list-type=2&prefix=a%20b%2F&delimiter=%2F"];

/** Signs requests of every kind that tare sends, and has Amazon's own client sign the same requests. */
export async function compareSignatures(amazon: Amazon): Promise<Outcome> {
  const outcome = new Outcome("signatures as botocore makes them");
  const requests = planRequests();
  const wanted = amazon.signatures(requests);
  for (const [i, request] of requests.entries()) {
    const { method, url, body, id, secret, token, region, time } = request;
    const credentials: Credentials = { accessKeyId: id, secretAccessKey: secret, sessionToken: token };
    const payloadHash = createHash("sha256").update(body).digest("hex");
    const headers = { ...request.headers, "x-amz-content-sha256": payloadHash };
    const moment = new Date(time.replace(/(....)(..)(..)T(..)(..)(..)Z/, "$1-$2-$3T$4:$5:$6Z"));
    const signed = await new SigV4(sha256).sign(
      { method, url, headers, payloadHash },
      { credentials, region, service: "s3", time: moment },
    );
    const found = signed["authorization"]?.split("Signature=")[1];
    outcome.check(`${method} ${url}`, found === wanted[i] ? [] : [`${found} is not ${wanted[i]}`]);
  }
  return outcome;
}

/** A request in the form that the script takes. */
export interface SignedSample {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly id: string;
  readonly secret: string;
  readonly token?: string | undefined;
  readonly region: string;
  readonly time: string;
}

function planRequests(): SignedSample[] {
  const samples: SignedSample[] = [];
  for (const [i, key] of KEYS.entries()) {
    const path = key.split("/").map(encode).join("/");
    for (const [j, query] of QUERIES.entries()) {
      const method = ["GET", "PUT", "POST", "DELETE"][j % 4] ?? "GET";
      const url = `https://store.example:9000/bucket/${path}${query === "" ? "" : `?${query}`}`;
      const token = (i + j) % 2 === 0 ? undefined : "session/token+==";
      const secret = `secret/${i}+${j}`;
      const meta = {
        "x-amz-meta-tare-write": `  id ${j}  x `,
        "x-amz-checksum-sha256": "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
      };
      const headers: Record<string, string> = method === "PUT" ? meta : {};
      const body = method === "PUT" || method === "POST" ? `body ${i}` : "";
      samples.push({
        method,
        url,
        headers,
        body,
        id: `ID${i}`,
        secret,
        token,
        region: "eu-west-1",
        time: `2026010${i + 1}T2359${j}0Z`,
      });
    }
  }
  return samples;
}

/** Encodes a key as in requests: every byte except the unreserved ones. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (it) => `%${it.charCodeAt(0).toString(16).toUpperCase()}`);
}
