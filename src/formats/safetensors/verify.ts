import { isTareError } from "../../base/errors.ts";
import type { Container } from "../../model/archive.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import type { Tensor } from "../../model/tensor.ts";
import { HEADER_ALIGNMENT } from "./header.ts";
import { LENGTH_BYTES } from "./index.ts";
import { type SafetensorsFile, SafetensorsModel } from "./model.ts";

/**
 * Opening has already checked the structure, and the format has no checksums. What is left is the padding that writers
 * should add and, at level "full", that booleans are 0 or 1. In any other type every byte is valid.
 */
async function* verifySafetensors(container: Container, context: VerifyContext): AsyncGenerator<Finding> {
  if (!(container instanceof SafetensorsModel)) return;
  context.count("tensors", container.tensors.length);
  if (container.files.length !== container.parts.length) context.count("shards", container.files.length);
  for (const file of container.files) {
    context.count("headerBytes", file.header.dataStart - LENGTH_BYTES);
    yield* verifyPadding(file);
  }
  if (context.level !== "full") return;
  for (const tensor of container.tensors) {
    if (tensor.dtype !== "BOOL") continue;
    const finding = await verifyBooleans(tensor, container, context);
    if (finding !== undefined) yield finding;
  }
}

function* verifyPadding({ source, header }: SafetensorsFile): Generator<Finding> {
  const length = header.dataStart - LENGTH_BYTES;
  const rest = length % HEADER_ALIGNMENT;
  if (rest === 0) return;
  yield {
    severity: "note",
    code: "format/safetensors.header-padding",
    message: `The header should have a multiple of ${HEADER_ALIGNMENT} bytes, found ${length}: tensor data is not aligned`,
    at: { source: source.label, offset: 0, path: "header_length" },
  };
}

async function verifyBooleans(
  tensor: Tensor,
  container: SafetensorsModel,
  context: VerifyContext,
): Promise<Finding | undefined> {
  const source = tensor.file ?? container.parts[0]?.label ?? tensor.name;
  let position = 0;
  let strange: number | undefined;
  try {
    for await (const piece of tensor.stream({ signal: context.signal })) {
      const at = strange === undefined ? piece.findIndex((value) => value > 1) : -1;
      if (at >= 0) strange = position + at;
      position += piece.byteLength;
      context.count("bytes", piece.byteLength);
      context.onProgress?.(piece.byteLength);
    }
  } catch (error) {
    if (!isTareError(error)) throw error;
    return { ...findingFromError(error), name: tensor.name };
  }
  if (strange === undefined) return undefined;
  return {
    severity: "warning",
    code: "format/safetensors.bool-value",
    message: `Tensor ${JSON.stringify(tensor.name)} of BOOL should hold 0 and 1 only, found another value at element ${strange}`,
    at: { source, offset: tensor.offset + strange, path: JSON.stringify(tensor.name) },
    name: tensor.name,
  };
}

export const verifier: FormatVerifier = { verify: verifySafetensors };
