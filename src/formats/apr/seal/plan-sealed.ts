import { alignUp } from "../../../base/integers.ts";
import type { ModelContent, WriteEncryption, WriteOptions } from "../../../model/format.ts";
import { FILE_FLAGS, fileFooter } from "../spec/layout.ts";
import { type FileImage, PlannedLength, planSpec, type SpecImage, type SpecPlan } from "../spec/plan.ts";
import { layOutFront } from "../spec/render.ts";
import { ENCRYPTION_KEY } from "./encryption-key.ts";
import { blankRecord, checkCost, DEFAULT_COST, type KdfCost, withRecord } from "./encryption-record.ts";
import { sealedByteLength } from "./segments.ts";

/** A plan whose files will be encrypted. */
export interface SealedPlan extends SpecPlan {
  readonly image: SealedImage;
}

/** What is to be written, and by which password. */
export interface SealedImage extends SpecImage {
  readonly encryption: WriteEncryption & { readonly cost: KdfCost };
  /** The metadata of each file without the record that says how it is encrypted. */
  readonly bare: readonly FileImage[];
}

/** As planSpec, with room for what encryption adds. Pure: keys are made when writing begins. */
export function planSealed(content: ModelContent, options: WriteOptions, encrypt: WriteEncryption): SealedPlan {
  const cost = encrypt.cost ?? DEFAULT_COST;
  checkCost(cost, { source: "plan" });
  const { [ENCRYPTION_KEY]: taken, ...plan } = takeKey(content, options);
  const { image, losses } = plan;
  const files = image.files.map((file) => sealFile(file, image, cost));
  const planned = [...files.map((file) => file.planned), ...(image.manifest === undefined ? [] : [image.manifest])];
  return {
    ...plan,
    files: planned,
    losses: taken === "taken" ? [...losses, KEY_LOSS] : losses,
    notes: [...plan.notes, "tensor data is encrypted; names, shapes and metadata stay readable without the password"],
    image: { ...image, files, bare: image.files, encryption: { ...encrypt, cost } },
  };
}

/** True for plans of `planSealed`. */
export function isSealedPlan(plan: object): plan is SealedPlan {
  return "image" in plan && typeof plan.image === "object" && plan.image !== null && "encryption" in plan.image;
}

const KEY_LOSS = {
  name: ENCRYPTION_KEY,
  reason: "an encrypted APR file needs this metadata key for itself",
};

function takeKey(content: ModelContent, options: WriteOptions): SpecPlan & { readonly encryption?: "taken" } {
  if (content.metadata.get(ENCRYPTION_KEY) === undefined) return planSpec(content, options);
  const metadata = content.metadata.without(ENCRYPTION_KEY);
  return { ...planSpec({ ...content, metadata }, options), encryption: "taken" };
}

function sealFile(file: FileImage, { align }: SpecImage, cost: KdfCost): FileImage {
  const metadata = withRecord(file.metadata, blankRecord(cost));
  const { name } = file.planned;
  let end = layOutFront(metadata.byteLength, file.rows, name).dataOffset;
  for (const { byteLength } of file.rows) {
    if (byteLength > 0) end = alignUp(end, align) + sealedByteLength(byteLength);
  }
  const flags = (file.flags | Number(FILE_FLAGS.encode(["ENCRYPTED"]))) >>> 0;
  return { ...file, metadata, flags, planned: new PlannedLength(name, end + fileFooter.byteLength) };
}
