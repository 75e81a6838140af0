import { parseHttpUrl } from "./url.ts";

/**
 * The parameters with which one scheme signs a URL. A URL is signed if it has all of `needed`, each once and plausible.
 */
interface SigningScheme {
  readonly needed: Readonly<Record<string, RegExp>>;
  readonly optional: readonly string[];
}

const HEX = /^[0-9a-f]+$/i;
const SECONDS = /^\d{1,15}$/;
const STAMP = /^\d{8}T\d{6}Z$/;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const ISO_TIME = /^\d{4}-\d{2}-\d{2}(T[0-9:.]+Z)?$/;
/** Standard base64, and the alphabet that CloudFront uses instead. A plus sign may have been left unescaped. */
const BASE64 = /^[A-Za-z0-9+/ ]+={0,2}$/;
const CLOUDFRONT_BASE64 = /^[A-Za-z0-9~-]+_{0,2}$/;
const ANYTHING = /^.+$/s;

const SCHEMES: readonly SigningScheme[] = [
  {
    // Amazon S3, Signature Version 4 in the query.
    needed: {
      "X-Amz-Algorithm": /^AWS4-(HMAC-SHA256|ECDSA-P256-SHA256)$/,
      "X-Amz-Credential": ANYTHING,
      "X-Amz-Date": STAMP,
      "X-Amz-Expires": SECONDS,
      "X-Amz-SignedHeaders": ANYTHING,
      "X-Amz-Signature": HEX,
    },
    optional: ["X-Amz-Security-Token", "X-Amz-Content-Sha256", "X-Amz-Region-Set"],
  },
  {
    // Amazon S3, Signature Version 2.
    needed: { AWSAccessKeyId: ANYTHING, Signature: BASE64, Expires: SECONDS },
    optional: ["x-amz-security-token"],
  },
  {
    // Google Cloud Storage, V4.
    needed: {
      "X-Goog-Algorithm": /^GOOG4-(RSA|HMAC)-SHA256$/,
      "X-Goog-Credential": ANYTHING,
      "X-Goog-Date": STAMP,
      "X-Goog-Expires": SECONDS,
      "X-Goog-SignedHeaders": ANYTHING,
      "X-Goog-Signature": HEX,
    },
    optional: [],
  },
  {
    // Google Cloud Storage, V2.
    needed: { GoogleAccessId: ANYTHING, Signature: BASE64, Expires: SECONDS },
    optional: [],
  },
  {
    // CloudFront with a custom policy; the Hub adds the time as a parameter.
    needed: { Policy: CLOUDFRONT_BASE64, Signature: CLOUDFRONT_BASE64, "Key-Pair-Id": /^[A-Z0-9]+$/ },
    optional: ["Expires", "Hash-Algorithm"],
  },
  {
    // CloudFront with the canned policy.
    needed: { Expires: SECONDS, Signature: CLOUDFRONT_BASE64, "Key-Pair-Id": /^[A-Z0-9]+$/ },
    optional: ["Hash-Algorithm"],
  },
  {
    // Azure, a shared access signature of the account.
    needed: { sv: DATE, ss: /^[bfqt]+$/, srt: /^[sco]+$/, sp: /^[a-z]+$/, se: ISO_TIME, sig: BASE64 },
    optional: ["st", "spr", "sip", "ses"],
  },
  {
    // Azure, a shared access signature of a service or a user delegation.
    needed: { sv: DATE, sr: /^(b|bv|bs|c|d|f|s)$/, sp: /^[a-z]+$/, se: ISO_TIME, sig: BASE64 },
    optional: [
      "st",
      "spr",
      "sip",
      "ses",
      "sdd",
      "skoid",
      "sktid",
      "skt",
      "ske",
      "sks",
      "skv",
      "saoid",
      "suoid",
      "scid",
    ],
  },
  {
    // Azure, with an access policy that the container keeps.
    needed: { sv: DATE, sr: /^(b|bv|bs|c|d|f|s)$/, si: ANYTHING, sig: BASE64 },
    optional: ["spr", "sip", "ses"],
  },
];

/**
 * An address without user, password and fragment, and without the parameters that sign it, which change each time the
 * file is signed. A single name proves nothing, since any server may use `sp` or `expires` to say which file is meant.
 * So parameters are dropped only if all that one scheme needs are present; otherwise the query stays as it is, byte for
 * byte.
 */
export function addressWithoutSignature(url: string): string {
  const address = new URL(parseHttpUrl(url).url);
  const fields = address.search === "" ? [] : address.search.slice(1).split("&");
  const named = fields.map((text) => ({ text, ...decodeField(text) }));
  const dropped = SCHEMES.find((scheme) => signs(scheme, named));
  if (dropped === undefined) return address.href;
  const names = new Set([...Object.keys(dropped.needed), ...dropped.optional]);
  const kept = named.filter(({ name }) => !names.has(name)).map(({ text }) => text);
  address.search = "";
  return kept.length === 0 ? address.href : `${address.href}?${kept.join("&")}`;
}

interface QueryField {
  readonly name: string;
  readonly value: string;
}

function decodeField(text: string): QueryField {
  const [[name, value] = ["", ""]] = new URLSearchParams(text);
  return { name, value };
}

function signs({ needed, optional }: SigningScheme, fields: readonly QueryField[]): boolean {
  const times = (name: string): number => fields.filter((field) => field.name === name).length;
  return (
    Object.entries(needed).every(([name, plausible]) => {
      const [field] = fields.filter((other) => other.name === name);
      return field !== undefined && times(name) === 1 && plausible.test(field.value);
    }) && optional.every((name) => times(name) <= 1)
  );
}
