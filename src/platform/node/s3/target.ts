import { SourceError, UsageError } from "../../../base/errors.ts";
import { withMeter, withOwner } from "../../../bytes/layers/base.ts";
import { placeOfFile } from "../../../bytes/layers/store.ts";
import type { ResolveOptions, Resolver } from "../../../bytes/resolver.ts";
import { objectUrl, s3Address } from "../../../bytes/s3/address.ts";
import { openS3, parseS3Address, type S3Address, type S3Client, s3Resolver } from "../../../bytes/s3/open.ts";
import type { Source } from "../../../bytes/source.ts";
import { chooseCandidates } from "../../../formats/registry.ts";
import type { Cost, OpenTargetOptions } from "../targets.ts";
import { nodeS3Client } from "./client.ts";

/** An opened s3:// TARGET: the object, or the one model below a prefix. */
export interface S3Place {
  readonly source: Source;
  readonly resolver: Resolver;
  readonly name: string;
  /** Drops the cached bytes of the opened objects. */
  distrust(): Promise<void>;
}

/** Opens `s3://bucket/key`, or the one model directly below `s3://bucket/prefix/`. */
export async function openS3Place(text: string, options: OpenTargetOptions, cost: Cost): Promise<S3Place> {
  const { engine, signal, http = {} } = options;
  const { timeoutMs, retries, connections, store, network, environment, s3, transport } = http;
  const onRequest = (): void => {
    cost.requests++;
  };
  const client = await nodeS3Client({
    engine,
    environment,
    s3,
    transport,
    timeoutMs,
    retries,
    connections,
    onRequest,
  });
  const places = new Set<string>();
  const open = async (address: S3Address, extra: ResolveOptions = {}): Promise<Source> => {
    const { pinned, namedBy } = extra;
    const url = objectUrl(address, client.session.endpoint);
    places.add(placeOfFile(url, { pinned, namedBy }));
    const source = await openS3(client, address, {
      timeoutMs,
      store,
      network,
      pinned,
      namedBy,
      signal: extra.signal ?? signal,
      maxMemoryBytes: options.maxBufferBytes,
      ...(retries === undefined ? {} : { retry: { retries } }),
    });
    return withMeter(source, cost);
  };
  const named = parseS3Address(text);
  const isPrefix = named.key === "" || named.key.endsWith("/");
  if (isPrefix && network === "offline") throw offlineError(named);
  const distrust = async (): Promise<void> => {
    for (const place of places) await store?.forget(place);
  };
  try {
    const address = isPrefix ? await findModelBelow(client, named, signal) : named;
    const resolver = s3Resolver(address, open);
    return { source: withOwner(await open(address), client), resolver, name: resolver.name, distrust };
  } catch (error) {
    await client.close();
    throw error;
  }
}

/** The object to open for a prefix: the one model in it, as for a directory. */
async function findModelBelow(
  client: S3Client,
  prefix: S3Address,
  signal: AbortSignal | undefined,
): Promise<S3Address> {
  const { objects } = await client.list(prefix, { signal });
  const names = objects.map(({ key }) => key.slice(prefix.key.length)).filter((name) => name !== "");
  const candidates = chooseCandidates(names);
  const [only, second] = candidates;
  if (only === undefined) {
    const found = names.length === 0 ? "nothing" : `${names.length} objects of other kinds`;
    throw new SourceError(
      "source/no-model",
      `Cannot find a model below "${prefix.label}": there must be one, found ${found}`,
      { source: prefix.label },
      { hint: "Name an object; content decides its format, whatever the extension" },
    );
  }
  if (second === undefined) return s3Address(prefix.bucket, prefix.key + only);
  const choices = candidates.slice(0, 20).map((name) => prefix.label + name);
  throw new UsageError(
    "usage/ambiguous-target",
    `Cannot choose: there are ${candidates.length} models below "${prefix.label}"`,
    { source: prefix.label },
    { hint: `Name one of them: ${choices.join("  ")}` },
  );
}

function offlineError({ label }: S3Address): SourceError {
  const message = `Cannot list "${label}": the option offline forbids the network`;
  return new SourceError("source/offline", message, { source: label }, { hint: "Name the object itself" });
}
