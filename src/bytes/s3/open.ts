import { type HttpOptions, openHttp } from "../http/index.ts";
import { fetchTransport, type HttpTransport } from "../http/transport.ts";
import { DelegatingSource } from "../layers/base.ts";
import { checkRelativeName, type ResolveOptions, type Resolver } from "../resolver.ts";
import type { Output, Sink } from "../sink.ts";
import type { Source } from "../source.ts";
import { objectUrl, type S3Address, s3Address } from "./address.ts";
import { S3Client, type S3ClientOptions } from "./client.ts";
import { newWriteId } from "./commit.ts";
import { s3Error } from "./errors.ts";
import { signedTransport } from "./session.ts";
import { type S3SinkOptions, s3Sink } from "./sink.ts";

export { isS3Url, parseS3Address, type S3Address, type S3Endpoint } from "./address.ts";
export { S3Client, type S3ClientOptions } from "./client.ts";
export { S3Session, type S3SessionOptions } from "./session.ts";
export { type S3SinkOptions, s3Sink } from "./sink.ts";

/** As for any URL; the client provides the transport and the retries. */
export type S3OpenOptions = Omit<HttpOptions, "transport" | "headers"> & {
  readonly conditions?: HttpTransport["conditions"] | undefined;
};

/**
 * A store assembles every range from several nodes: with MinIO, requests of 24 MiB took half the time of requests of 4
 * MiB. Two of them fill the memory that streams may hold.
 */
const REQUEST_BYTES = 24 << 20;

/**
 * Opens an object: ranges over signed requests, with all features of `openHttp` for files on web servers. A session is
 * enough: programs that only read have no client in their bundle.
 */
export async function openS3(
  { session }: Pick<S3Client, "session">,
  address: S3Address,
  options: S3OpenOptions = {},
): Promise<Source> {
  const { conditions = "if-range", ...rest } = options;
  const transport = signedTransport(session, conditions, address.label);
  const url = objectUrl(address, session.endpoint);
  return withLabel(await openHttp(url, { requestBytes: REQUEST_BYTES, ...rest, transport }), address.label);
}

/** The same bytes under the name that the user knows. */
export function withLabel(source: Source, label: string): Source {
  return new LabelledSource(source, label);
}

class LabelledSource extends DelegatingSource {
  readonly #label: string;

  constructor(inner: Source, label: string) {
    super(inner);
    this.#label = label;
  }

  override get label(): string {
    return this.#label;
  }
}

/** Opens the siblings of an object: same bucket, same prefix up to the last slash, or below it. */
export function s3Resolver(
  address: S3Address,
  open: (sibling: S3Address, options?: ResolveOptions) => Promise<Source>,
): Resolver {
  const cut = address.key.lastIndexOf("/") + 1;
  const folder = address.key.slice(0, cut);
  return {
    name: address.key.slice(cut),
    async resolve(name: string, options?: ResolveOptions): Promise<Source> {
      checkRelativeName(name, { source: address.label });
      return open(s3Address(address.bucket, folder + name), {
        ...options,
        namedBy: `s3://${address.bucket}/${address.key}`,
      });
    },
  };
}

/** An Output below the prefix of the address, whose last segment is the name that the user chose. */
export function s3Output(client: S3Client, address: S3Address, options: S3SinkOptions): Output {
  const cut = address.key.lastIndexOf("/") + 1;
  const folder = address.key.slice(0, cut);
  const at = (name: string): S3Address => {
    checkRelativeName(name, { source: address.label });
    return s3Address(address.bucket, folder + name);
  };
  return {
    label: address.label,
    name: address.key.slice(cut),
    create: async (name): Promise<Sink> => s3Sink(client, at(name), options),
    async peek(name): Promise<Source | undefined> {
      const existing = await client.head(at(name));
      return existing === undefined ? undefined : openS3(client, at(name));
    },
    async replace(name, bytes): Promise<void> {
      const outcome = await client.put(at(name), bytes, { condition: { kind: "none" }, writeId: newWriteId() });
      if (outcome.kind !== "written") throw s3Error(outcome.refusal, at(name).label, "Cannot write");
    },
    remove: async (name): Promise<void> => client.remove(at(name)),
  };
}

/** A client on the global fetch, for browsers; the store must allow the page (CORS). */
export function fetchS3Client(options: Omit<S3ClientOptions, "transport">): S3Client {
  return new S3Client({ ...options, transport: fetchTransport() });
}
