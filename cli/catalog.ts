import { BASE_ERRORS } from "../src/base/catalog.ts";
import type { ErrorCatalog, ErrorEntry } from "../src/base/errors.ts";
import { BYTES_ERRORS } from "../src/bytes/errors.ts";
import { S3_ERRORS } from "../src/bytes/s3-catalog.ts";
import { ENCODER_ERRORS } from "../src/embedding/encoder/errors.ts";
import { SEARCH_ERRORS } from "../src/embedding/search/catalog.ts";
import { TOKENIZER_ERRORS } from "../src/embedding/tokenizer/catalog.ts";
import { AEROCORRECT_ERRORS } from "../src/formats/aerocorrect/errors.ts";
import { FOREIGN_ERRORS } from "../src/formats/foreign.ts";
import { loadFormats } from "../src/formats/registry.ts";
import { BERT_ERRORS } from "../src/model/bert/errors.ts";
import { MODEL_ERRORS } from "../src/model/catalog.ts";
import { OPEN_ERRORS } from "../src/open.ts";
import { INSIDE_ERRORS } from "../src/open-inside.ts";
import { OPERATION_ERRORS } from "../src/operations/catalog.ts";
import { CORRECT_ERRORS } from "../src/operations/correct/errors.ts";
import { PULL_ERRORS } from "../src/operations/pull/errors.ts";
import { SIGNATURE_ERRORS } from "../src/operations/signature-errors.ts";
import { STAMP_ERRORS } from "../src/operations/stamp.ts";
import { UPGRADE_ERRORS } from "../src/operations/upgrade.ts";
import { VAULT_ERRORS } from "../src/operations/vault/errors.ts";
import { VAULT_UPGRADE_ERRORS } from "../src/operations/vault/upgrade.ts";
import { CACHE_ERRORS } from "../src/platform/node/disk-cache.ts";
import { TARGET_ERRORS } from "../src/platform/node/open-target.ts";
import { OUTPUT_PLACE_ERRORS } from "../src/platform/node/output-place.ts";
import { PATCH_ERRORS } from "../src/platform/node/patch-file.ts";
import { PUSH_ERRORS } from "../src/platform/node/push-files.ts";
import { S3_SETTINGS_ERRORS } from "../src/platform/node/s3-settings.ts";
import { SERVE_ERRORS } from "../src/platform/node/serve/errors.ts";
import { VAULT_DRAFT_ERRORS } from "../src/platform/node/vault-draft.ts";
import { VAULT_EXTRACT_ERRORS } from "../src/platform/node/vault-folders.ts";
import { VAULT_LOCK_ERRORS } from "../src/platform/node/vault-lock.ts";
import { VAULT_MARK_ERRORS } from "../src/platform/node/vault-mark.ts";
import { VAULT_TREE_ERRORS } from "../src/platform/node/vault-tree.ts";
import { PRIMITIVE_ERRORS } from "../src/primitives/errors.ts";
import { STRUCT_ERRORS } from "../src/struct/errors.ts";
import { JSON_ERRORS } from "../src/struct/json-errors.ts";
import { WORKER_ERRORS } from "../src/workers/errors.ts";
import { CLI_ERRORS } from "./cli-errors.ts";

/** Every documented error and finding code, sorted, with its entry. */
export async function allErrors(): Promise<ReadonlyMap<string, ErrorEntry>> {
  const formats = await loadFormats();
  const catalogs: readonly ErrorCatalog[] = [
    BASE_ERRORS,
    BYTES_ERRORS,
    S3_ERRORS,
    STRUCT_ERRORS,
    JSON_ERRORS,
    PRIMITIVE_ERRORS,
    MODEL_ERRORS,
    BERT_ERRORS,
    TOKENIZER_ERRORS,
    ENCODER_ERRORS,
    SEARCH_ERRORS,
    OPEN_ERRORS,
    INSIDE_ERRORS,
    FOREIGN_ERRORS,
    OPERATION_ERRORS,
    PULL_ERRORS,
    SIGNATURE_ERRORS,
    UPGRADE_ERRORS,
    STAMP_ERRORS,
    PATCH_ERRORS,
    OUTPUT_PLACE_ERRORS,
    TARGET_ERRORS,
    CACHE_ERRORS,
    PUSH_ERRORS,
    S3_SETTINGS_ERRORS,
    WORKER_ERRORS,
    SERVE_ERRORS,
    VAULT_ERRORS,
    VAULT_UPGRADE_ERRORS,
    AEROCORRECT_ERRORS,
    CORRECT_ERRORS,
    VAULT_LOCK_ERRORS,
    VAULT_MARK_ERRORS,
    VAULT_DRAFT_ERRORS,
    VAULT_TREE_ERRORS,
    VAULT_EXTRACT_ERRORS,
    CLI_ERRORS,
    ...(await Promise.all(formats.map((format) => format.errors()))),
  ];
  const entries = catalogs.flatMap((catalog) => Object.entries(catalog));
  return new Map(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}
