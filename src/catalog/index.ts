import type { ErrorCatalog, ErrorEntry } from "../base/errors.ts";
import { SIGNATURES } from "../formats/foreign.ts";
import { BASE_ERRORS, JSON_ERRORS, PRIMITIVE_ERRORS, STRUCT_ERRORS } from "./base.ts";
import { BYTES_ERRORS, S3_ERRORS, S3_SETTINGS_ERRORS } from "./bytes.ts";
import { CLI_ERRORS } from "./command-line.ts";
import { ENCODER_ERRORS, SEARCH_ERRORS, TOKENIZER_ERRORS } from "./embedding.ts";
import { AERO_ERRORS } from "./formats/aero.ts";
import { AEROCORRECT_ERRORS } from "./formats/aerocorrect.ts";
import { AEROSET_ERRORS, AEROSET_WRITE_ERRORS } from "./formats/aeroset.ts";
import { AEROVAULT_ERRORS } from "./formats/aerovault.ts";
import { AEROVAULT1_ERRORS, AEROVAULT2_ERRORS } from "./formats/aerovault-legacy.ts";
import { APR_ERRORS, APR_SEAL_ERRORS } from "./formats/apr.ts";
import { WILD_ERRORS } from "./formats/apr-layouts.ts";
import { EMBD_ERRORS } from "./formats/embd.ts";
import { GGUF_ERRORS } from "./formats/gguf.ts";
import { ONNX_ERRORS } from "./formats/onnx.ts";
import { SAFETENSORS_ERRORS } from "./formats/safetensors.ts";
import { LIBRARY_ERRORS } from "./library.ts";
import { BERT_ERRORS, MODEL_ERRORS } from "./model.ts";
import { CACHE_ERRORS, OUTPUT_PLACE_ERRORS, PATCH_ERRORS, TARGET_ERRORS, WORKER_ERRORS } from "./node.ts";
import {
  CORRECT_ERRORS,
  INSIDE_ERRORS,
  OPEN_ERRORS,
  OPERATION_ERRORS,
  SIGNATURE_ERRORS,
  STAMP_ERRORS,
  UPGRADE_ERRORS,
} from "./operations.ts";
import { PULL_ERRORS, PUSH_ERRORS, SERVE_ERRORS } from "./transfer.ts";
import {
  VAULT_DRAFT_ERRORS,
  VAULT_ERRORS,
  VAULT_EXTRACT_ERRORS,
  VAULT_LIBRARY_ERRORS,
  VAULT_LOCK_ERRORS,
  VAULT_MARK_ERRORS,
  VAULT_TREE_ERRORS,
  VAULT_UPGRADE_ERRORS,
} from "./vault.ts";

/** What is not ours has its texts beside its signatures, so that no advice is written twice. */
const FOREIGN_ERRORS: ErrorCatalog = Object.fromEntries(
  SIGNATURES.map(({ code, what, hint }) => [
    code,
    {
      what: `The file is ${what}.`,
      why: "tare recognised the content by its first bytes; it is not one of the formats it reads.",
      fix: `${hint}.`,
    },
  ]),
);

/** The texts of every error and finding, by the layer that reports them. Each format has its own file of texts. */
const CATALOGS: readonly ErrorCatalog[] = [
  BASE_ERRORS,
  STRUCT_ERRORS,
  JSON_ERRORS,
  PRIMITIVE_ERRORS,
  BYTES_ERRORS,
  S3_ERRORS,
  S3_SETTINGS_ERRORS,
  CLI_ERRORS,
  LIBRARY_ERRORS,
  TOKENIZER_ERRORS,
  ENCODER_ERRORS,
  SEARCH_ERRORS,
  MODEL_ERRORS,
  BERT_ERRORS,
  CACHE_ERRORS,
  TARGET_ERRORS,
  OUTPUT_PLACE_ERRORS,
  PATCH_ERRORS,
  WORKER_ERRORS,
  OPEN_ERRORS,
  INSIDE_ERRORS,
  FOREIGN_ERRORS,
  OPERATION_ERRORS,
  UPGRADE_ERRORS,
  STAMP_ERRORS,
  SIGNATURE_ERRORS,
  CORRECT_ERRORS,
  PULL_ERRORS,
  PUSH_ERRORS,
  SERVE_ERRORS,
  VAULT_ERRORS,
  VAULT_UPGRADE_ERRORS,
  VAULT_LIBRARY_ERRORS,
  VAULT_LOCK_ERRORS,
  VAULT_MARK_ERRORS,
  VAULT_DRAFT_ERRORS,
  VAULT_TREE_ERRORS,
  VAULT_EXTRACT_ERRORS,
  AERO_ERRORS,
  AEROCORRECT_ERRORS,
  AEROSET_ERRORS,
  AEROSET_WRITE_ERRORS,
  AEROVAULT2_ERRORS,
  AEROVAULT1_ERRORS,
  AEROVAULT_ERRORS,
  WILD_ERRORS,
  APR_ERRORS,
  APR_SEAL_ERRORS,
  EMBD_ERRORS,
  GGUF_ERRORS,
  ONNX_ERRORS,
  SAFETENSORS_ERRORS,
];

/** Every documented error and finding code, sorted, with its entry. */
export function allErrors(): ReadonlyMap<string, ErrorEntry> {
  const entries = CATALOGS.flatMap((catalog) => Object.entries(catalog));
  return new Map(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}
