import type { Bytes } from "../../base/bytes.ts";
import { UsageError } from "../../base/errors.ts";
import type { Sink } from "../../bytes/sink.ts";
import type { Sign, SigningContext } from "../../model/capabilities.ts";
import type { Warned } from "../../model/finding.ts";
import { keyId, signatureName, signBeside, signerOf } from "../../operations/sign.ts";
import { type Request, requestOf, type VerbHost } from "../host.ts";
import { withInput } from "../input-use.ts";
import type { Input, OpenedInput } from "../inputs.ts";
import { anyRule, WRITE_RULES, type WriteOptions } from "../options.ts";
import { commitTo, destinationOf, type Output, writeOne } from "../outputs.ts";
import { ownPlace } from "../own-place.ts";
import { withProgress } from "../progress.ts";
import { type Key, keyRule, privateKeyOf } from "./keys.ts";

export interface SignOptions extends WriteOptions {
  /** The private key: PKCS#8, as `keygen` writes it. */
  readonly key: Key;
  /** Where the signed file, or the signature, goes; if absent, in the file's place or beside it. */
  readonly output?: Output | undefined;
}

/** What `tare sign --json` prints. */
export interface SignResult extends Warned {
  readonly dryRun: boolean;
  /** The signed file, or the file with the signature. */
  readonly path: string;
  readonly place: "inside" | "beside";
  /** Id of the public key. */
  readonly key: string;
}

const RULES = { ...WRITE_RULES, key: keyRule, output: anyRule };

/** Signs in the file if the format has room for it, else beside it. */
export async function sign(host: VerbHost, input: Input, options: SignOptions): Promise<SignResult> {
  const request = await requestOf(host, "sign", options ?? {}, RULES);
  if (request.key === undefined) {
    const message = "Cannot sign without the option key: must be a private key";
    const hint = "Make one with: tare keygen";
    throw new UsageError("usage/option-missing", message, { source: "sign", path: "key" }, { hint });
  }
  const seed = await privateKeyOf(host, request.key, request);
  try {
    return await withInput(host, input, request, (opened) =>
      signOpened({ host, input, opened, request }, { seed, output: request.output }),
    );
  } finally {
    seed.fill(0);
  }
}

/** An opened input, and for whom it is signed. */
export interface SigningCall {
  readonly host: VerbHost;
  readonly input: Input;
  readonly opened: OpenedInput;
  readonly request: Request;
}

export interface SignJob {
  /** The private key; the caller wipes it. */
  readonly seed: Bytes;
  readonly output?: Output | undefined;
  /** "refused" if a signature beside the file must not replace another one. */
  readonly existing?: "refused" | undefined;
}

/** The same for an input that is open. */
export async function signOpened(call: SigningCall, { seed, output, existing }: SignJob): Promise<SignResult> {
  const { opened, request } = call;
  const { engine, dryRun } = request;
  const signing = (await opened.format.write?.())?.signing;
  const place = signing?.place(opened.container) ?? "beside";
  const job = { place, existing, sign: await signerOf(engine, seed) };
  const path = output === undefined ? await signInPlace(call, job) : await signTo(call, output, job);
  const publicKey = await (await engine.ed25519()).publicKey(seed);
  return { dryRun: dryRun === true, path, place, key: await keyId(engine, publicKey) };
}

interface PlacedJob {
  readonly place: SignResult["place"];
  readonly existing: SignJob["existing"];
  readonly sign: Sign;
}

/** A file that is signed in place replaces itself; so does a signature beside it, unless the job refuses that. */
async function signInPlace({ host, input, opened, request }: SigningCall, job: PlacedJob): Promise<string> {
  const isInside = job.place === "inside";
  const own = await ownPlace(
    host,
    { input, opened, request, kind: "sign" },
    {
      name: isInside ? (path) => path : signatureName,
      inputs: isInside ? "rewritten" : "kept",
      // The user did not type the name of a signature beside a file.
      links: isInside ? undefined : "replace",
      existing: isInside ? undefined : job.existing,
    },
  );
  await own.checkInputs();
  await own.checkReplaceable();
  if (request.dryRun !== true) {
    await write(opened, { ...job, request }, async (fill) => commitTo(await own.create(), fill));
  }
  return own.path;
}

async function signTo({ host, opened, request }: SigningCall, output: Output, job: PlacedJob): Promise<string> {
  const isInside = job.place === "inside";
  const inputs = isInside ? undefined : "kept";
  const place = await destinationOf(host, output, request, { names: "file", inputs });
  const own = baseName(opened.label);
  const name = place.fileName ?? (isInside ? own : signatureName(own));
  await place.checkAbsent([name]);
  if (request.dryRun !== true) await write(opened, { ...job, request }, (fill) => writeOne(place, name, fill));
  return place.pathOf(name);
}

function baseName(label: string): string {
  return (
    label
      .replace(/[?#].*$/s, "")
      .split(/[\\/]/)
      .at(-1) || "model"
  );
}

type WriteJob = Omit<PlacedJob, "existing"> & { readonly request: Request };

/** `commit` gives the writer a file, and completes it. */
function write(
  opened: OpenedInput,
  { place, sign, request }: WriteJob,
  commit: (fill: (sink: Sink) => Promise<void>) => Promise<void>,
): Promise<void> {
  const { container, format, resolver } = opened;
  const { engine, signal, onProgress } = request;
  const total = container.parts.reduce((sum, part) => sum + part.byteLength, 0);
  return withProgress({ label: "signing", total }, onProgress, (progress) =>
    commit(async (sink) => {
      const context: SigningContext = { engine, signal, onProgress: progress.add };
      if (place === "inside") await (await format.write?.())?.signing?.write(container, sink, { ...context, sign });
      else if (resolver === undefined) throw alone(opened.label);
      else await sink.append(await signBeside(container, resolver, { ...context, sign }));
    }),
  );
}

function alone(label: string): UsageError {
  const message = `Cannot sign "${label}": it has no name by which a signature could list it`;
  return new UsageError("usage/arguments", message, { source: "options" }, { hint: "Save it to a file first" });
}
