import type { Bytes } from "../../base/bytes.ts";
import { isTareError, LimitError } from "../../base/errors.ts";
import { encodeHex } from "../../base/hex.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { VerifyContext } from "../../model/format.ts";
import { tensorError } from "../aero/weights/hashed-tensor.ts";
import type { GlobalEntry } from "./part-tensors.ts";
import type { PartFile } from "./parts.ts";
import type { SetModel } from "./set-model.ts";

/** Extents of one job: what a worker gets in a message. */
const JOB_EXTENTS = 1 << 16;
/** Tensors may share bytes; beyond so many times the part's length, hashing them all is refused. */
const MAX_SHARING = 16;

interface HashTask {
  readonly context: VerifyContext;
  readonly numbers: readonly number[];
}

/** A digest of the global index for which the part has none of its own. */
interface Row {
  readonly name: string;
  readonly hash: string;
  readonly offset: number;
  readonly byteLength: number;
}

/** Digests that only the global index has; those that the part has too were compared with its bytes already. */
export async function* verifyGlobalHashes(model: SetModel, part: PartFile, task: HashTask): AsyncGenerator<Finding> {
  const { context, numbers } = task;
  const source = part.model?.content.source;
  if (source === undefined) return;
  const rows = numbers.flatMap((number) => rowOf(model, number));
  const total = rows.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (total > MAX_SHARING * source.byteLength) {
    yield findingFromError(tooMuch(total, part, source.byteLength));
    return;
  }
  for (let start = 0; start < rows.length; start += JOB_EXTENTS) {
    const job = rows.slice(start, start + JOB_EXTENTS);
    const extents = job.map(({ offset, byteLength }) => ({ offset, byteLength }));
    const digests = await context.engine.digestExtents("blake3", source, extents, { signal: context.signal });
    context.count("tensorHashes", job.length);
    for (const [i, row] of job.entries()) {
      const found = encodeHex(digests[i] as Bytes);
      if (found === row.hash) continue;
      yield { ...findingFromError(tensorError({ ...row, label: source.label }, found)), name: row.name };
    }
  }
}

function rowOf(model: SetModel, number: number): Row[] {
  const { name, hash } = model.content.entries[number] as GlobalEntry;
  if (hash === undefined) return [];
  try {
    const { tensor, ownHash } = model.place(number);
    if (ownHash !== undefined) return [];
    return [{ name, hash, offset: tensor.offset, byteLength: tensor.storedByteLength }];
  } catch (error) {
    if (isTareError(error)) return []; // told by verifyAgreement
    throw error;
  }
}

function tooMuch(total: number, part: PartFile, fileBytes: number): LimitError {
  const message = `Cannot hash the tensors of "${part.label}": they share bytes ${Math.ceil(total / Math.max(1, fileBytes))} times over, must be <= ${MAX_SHARING}`;
  return new LimitError("limit/aeroset.tensor-sharing", message, { source: part.label, offset: 0, path: "tensors" });
}
