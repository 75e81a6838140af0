import { isTareError } from "../../base/errors.ts";
import type { Container } from "../../model/archive.ts";
import { type Finding, findingFromError } from "../../model/finding.ts";
import type { FormatVerifier, VerifyContext } from "../../model/format.ts";
import { OnnxModel } from "./model.ts";

/** Tensors up to this length are read in one read. */
const SHORT_BYTES = 64 << 10;

/**
 * Opening has already reported what is not read, and checked the structure and that every tensor has the bytes that its
 * shape needs. The format has no checksums. What is left for level "full" is to read the data, which counts values that
 * are stored one by one.
 */
async function* verifyOnnx(container: Container, context: VerifyContext): AsyncGenerator<Finding> {
  if (!(container instanceof OnnxModel)) return;
  context.count("tensors", container.tensors.length);
  if (container.parts.length > 1) context.count("externalFiles", container.parts.length - 1);
  if (context.level !== "full") return;
  for (const tensor of container.tensors) {
    try {
      // A stream for each of 100 000 short tensors would cost more than all of their bytes.
      const { signal } = context;
      const pieces = tensor.byteLength <= SHORT_BYTES ? [await tensor.bytes({ signal })] : tensor.stream({ signal });
      for await (const piece of pieces) {
        context.count("bytes", piece.byteLength);
        context.onProgress?.(piece.byteLength);
      }
    } catch (error) {
      if (!isTareError(error)) throw error;
      yield { ...findingFromError(error), name: tensor.name };
    }
  }
}

export const verifier: FormatVerifier = { verify: verifyOnnx };
