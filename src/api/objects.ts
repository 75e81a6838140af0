import { UsageError } from "../base/errors.ts";
import { fetchTransport } from "../bytes/http/transport.ts";
import { withOwner } from "../bytes/layers/base.ts";
import type { ResolveOptions } from "../bytes/resolver.ts";
import {
  openS3,
  parseS3Address,
  type S3Address,
  type S3ClientOptions,
  type S3Endpoint,
  S3Session,
  s3Resolver,
} from "../bytes/s3/open.ts";
import type { Source } from "../bytes/source.ts";
import { type AddressPlace, type Counting, httpSettings } from "./addresses.ts";
import type { OpenRequest } from "./inputs.ts";
import type { S3Options } from "./options.ts";

/** Objects at `s3://` addresses, for hosts without an environment: the option s3 says everything about the store. */

/** Amazon's default. */
const REGION = "us-east-1";

/** The bytes of an object, and what opens the objects beside it. */
export async function openObject(text: string, request: OpenRequest & Counting): Promise<AddressPlace> {
  const named = objectAddress(text);
  const session = storeSettings(request);
  const client = { session: new S3Session(session), close: async () => session.transport.close?.() };
  const { transport: _transport, ...settings } = httpSettings(request);
  const open = (address: S3Address, { pinned, namedBy, signal = request.signal }: ResolveOptions = {}) =>
    openS3(client, address, { ...settings, pinned, namedBy, signal }) as Promise<Source>;
  try {
    return { source: withOwner(await open(named), client), resolver: s3Resolver(named, open) };
  } catch (error) {
    await client.close();
    throw error;
  }
}

export function objectAddress(text: string): S3Address {
  const address = parseS3Address(text);
  if (address.key !== "" && !address.key.endsWith("/")) return address;
  const message = `Cannot use "${address.label}": the key must name an object`;
  throw new UsageError("usage/s3.address", message, { source: address.label });
}

/** What the options say about the store. */
export function storeSettings(request: OpenRequest & Counting): S3ClientOptions {
  const { engine, s3 = {} } = request;
  const { retry, transport = fetchTransport() } = httpSettings(request);
  const { accessKeyId, secretAccessKey, sessionToken } = s3;
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined)) {
    throw settingsError("accessKeyId and secretAccessKey must be given together");
  }
  const credentials =
    accessKeyId === undefined || secretAccessKey === undefined
      ? undefined
      : { accessKeyId, secretAccessKey, sessionToken };
  return {
    endpoint: endpointOf(s3),
    credentials,
    transport,
    sha256: (bytes) => engine.digest("sha256", bytes),
    ...(retry === undefined ? {} : { retry }),
  };
}

function endpointOf({ endpoint, region = REGION, addressing }: S3Options): S3Endpoint {
  if (!/^[a-z0-9-]{1,40}$/i.test(region)) throw settingsError("the region must be letters, digits and dashes");
  if (endpoint === undefined) return { region, addressing: addressing ?? "virtual-host" };
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  const isPlain = url?.username === "" && url.password === "" && url.search === "" && url.hash === "";
  // The message does not repeat the URL: it may hold a password.
  if (url === undefined || !isPlain || !/^https?:$/.test(url.protocol))
    throw settingsError("the endpoint must be an http or https URL without a user or query");
  return { region, url: url.href, addressing: addressing ?? "path" };
}

function settingsError(reason: string): UsageError {
  const message = `Cannot set up object storage: ${reason}`;
  return new UsageError("usage/s3.settings", message, { source: "the option s3" });
}
