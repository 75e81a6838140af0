import type { Container } from "../../model/archive.ts";
import type { Finding } from "../../model/finding.ts";
import type { Opened } from "../../model/format.ts";
import type { Verification } from "../../model/model.ts";
import type { Tensor } from "../../model/tensor.ts";
import { isTaken, type NameSelection } from "./glob.ts";

/** Findings of opening after which values may be wrong. */
const DOUBTS = /^integrity\/|^format\/embd\.orientation$/;

/** What opening found that matters to verbs that use the values and otherwise show no findings, as sentences. */
export function doubtsOf({ warnings }: { readonly warnings: readonly Finding[] }): readonly string[] {
  return warnings.filter(({ code }) => DOUBTS.test(code)).map(({ code, message }) => `${message} [${code}]`);
}

/** What the bytes of a tensor were checked against: by the tags of a vault if by nothing of its own format. */
export function verificationOf({ container, carrier }: Opened, tensor: Tensor): Verification {
  const own = container.kind === "model" ? container.verificationOf?.(tensor) : undefined;
  return own === undefined || own === "unverified" ? (carrier ?? "unverified") : own;
}

/**
 * A note if tensors were read without being compared with anything, in a format that could compare them. The output
 * gets its own digests, which would make damage look sound. Called after reading, when parts are open.
 */
export function unverifiedNotes(opened: Opened, tensors: readonly Tensor[]): string[] {
  const { container } = opened;
  if (container.kind !== "model" || container.verificationOf === undefined) return [];
  const { length } = tensors.filter(
    (tensor) =>
      tensor.byteLength > 0 && verificationOf(opened, tensor) === "unverified" && container.isProven?.(tensor) !== true,
  );
  if (length === 0) return [];
  const count = String(length).replace(/\B(?=(\d{3})+$)/g, ",");
  const [taken, own] = length === 1 ? ["1 tensor was", "it or its"] : [`${count} tensors were`, "them or their"];
  return [`${taken} taken unverified: the input has no digests of ${own} pages; check it with: tare verify`];
}

export interface Proof {
  readonly tensors: readonly Tensor[];
  readonly time: "before" | "after";
  readonly signal?: AbortSignal | undefined;
}

/**
 * Compares the files with digests that cover more than one tensor. A verb that publishes each tensor by itself has
 * local files compared before the first one: "before". A download is compared as it arrives: "after".
 */
export async function proveTensors(container: Container, { tensors, time, signal }: Proof): Promise<void> {
  if (container.kind !== "model") return;
  if (time === "before") {
    for (const label of new Set(tensors.flatMap(({ file }) => file ?? []))) {
      await container.openPart?.(label);
      await container.checkPart?.(label, { signal });
    }
    if (!container.parts.every(({ source }) => source.descriptor !== undefined)) return;
    // Asking for the bytes marks the files as read.
    for (const tensor of tensors) tensor.source();
  }
  await container.prove?.({ signal });
}

/** The tensors that `include` and `exclude` leave, by their names in the input. */
export function takenTensors(container: Container, selection: NameSelection): readonly Tensor[] {
  if (container.kind !== "model") return [];
  const { include = [], exclude = [] } = selection;
  if (include.length + exclude.length === 0) return container.tensors;
  return container.tensors.filter(({ name }) => isTaken(name, selection));
}
