import type { Bytes } from "../src/base/bytes.ts";
import { UsageError } from "../src/base/errors.ts";
import type { Sink } from "../src/bytes/sink.ts";
import type { Sign, SigningContext } from "../src/model/capabilities.ts";
import { keyId, signatureName, signBeside, signerOf } from "../src/operations/sign.ts";
import type { OpenedTarget } from "../src/platform/node/open-target.ts";
import type { Context } from "./context.ts";
import { checkAbsent, overwriteOf } from "./output-target.ts";

/** What was signed, or would be. */
export interface Signed {
  /** The signed file, or the file with the signature. */
  readonly path: string;
  readonly place: "inside" | "beside";
  /** Id of the public key. */
  readonly key: string;
}

export interface SignJob {
  /** The private key; the caller wipes it. */
  readonly seed: Bytes;
  /** Where the result goes; in place, or beside the file, where absent. */
  readonly output?: string | undefined;
}

/** Signs in the file where the format has room for it, else beside it. Writes nothing with --dry-run. */
export async function signOpened(context: Context, opened: OpenedTarget, { seed, output }: SignJob): Promise<Signed> {
  const signing = (await opened.format.write?.())?.signing;
  const place = signing?.place(opened.container) ?? "beside";
  const path = output ?? pathBeside(opened, place);
  const engine = await context.engine();
  const sign = await signerOf(engine, seed);
  if (context.flags["dry-run"] !== true) {
    const sink = await openSink(context, { path, place, output });
    await write(context, opened, { place, sink, sign });
  }
  const publicKey = await (await engine.ed25519()).publicKey(seed);
  return { path, place, key: await keyId(engine, publicKey) };
}

function pathBeside(opened: OpenedTarget, place: Signed["place"]): string {
  const first = opened.container.parts[0];
  if (first !== undefined && opened.resolver !== undefined && !/^[a-z][a-z0-9+.-]+:\/\//i.test(opened.label)) {
    return place === "inside" ? first.label : signatureName(first.label);
  }
  const message = `Cannot write beside "${opened.label}": only files on disk can be signed in place`;
  throw new UsageError("usage/arguments", message, { source: "command line" }, { hint: "Name the output with -o OUT" });
}

interface WriteJob {
  readonly place: Signed["place"];
  readonly sink: Sink;
  readonly sign: Sign;
}

async function write(context: Context, opened: OpenedTarget, { place, sink, sign }: WriteJob): Promise<void> {
  const { container, format, resolver } = opened;
  const total = container.parts.reduce((sum, part) => sum + part.byteLength, 0);
  const progress = context.progress({ label: "signing", total });
  const signing: SigningContext = {
    engine: await context.engine(),
    signal: context.signal,
    onProgress: (byteLength) => progress.add(byteLength),
  };
  try {
    if (place === "inside") await (await format.write?.())?.signing?.write(container, sink, { ...signing, sign });
    else if (resolver === undefined) throw alone(opened.label);
    else await sink.append(await signBeside(container, resolver, { ...signing, sign }));
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  } finally {
    progress.end();
  }
}

/** What is signed in its place replaces itself; a path that was named follows --force. */
async function openSink(
  context: Context,
  { path, place, output }: Pick<Signed, "path" | "place"> & Pick<SignJob, "output">,
): Promise<Sink> {
  const { fileSink, abortAllSinks } = await import("../src/platform/node/file-sink.ts");
  context.onExit(abortAllSinks);
  if (output === undefined) return fileSink(path, { overwrite: "replace" });
  await checkAbsent(context, path, { inputs: place === "inside" ? "rewritten" : "kept" });
  return fileSink(path, { overwrite: overwriteOf(context) });
}

function alone(label: string): UsageError {
  const message = `Cannot sign "${label}": it has no name by which a signature could list it`;
  return new UsageError("usage/arguments", message, { source: "command line" }, { hint: "Save it to a file first" });
}
