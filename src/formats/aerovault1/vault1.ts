import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import type { Engine } from "../../primitives/engine.ts";
import type { EntryContent } from "./entry-content.ts";
import type { Aerovault1Limits } from "./limits.ts";
import type { PasswordProof } from "./password-proof.ts";
import type { ZipRow } from "./zip-directory.ts";
import type { DirectoryPlace } from "./zip-end.ts";

/** A vault of version 1 whose directory was read. Nothing of it is proven before a password is. */
export interface Vault1 {
  readonly source: Source;
  readonly engine: Engine;
  readonly directory: DirectoryPlace;
  readonly meta: ZipRow;
  /** Without the meta entry. */
  readonly rows: readonly ZipRow[];
  /** Of every file, the meta entry included. */
  readonly contents: ReadonlyMap<ZipRow, EntryContent>;
  readonly proof: PasswordProof;
  readonly limits: Aerovault1Limits;
  readonly warnings: readonly Finding[];
}
