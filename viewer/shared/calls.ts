import type { ArchiveDiffReport, DiffReport } from "../../src/operations/diff.ts";
import type { TensorStatistics } from "../../src/operations/stats.ts";
import type { Report } from "../../src/operations/verify.ts";
import type { FieldRow, HexPage } from "../pages/hex-page.ts";
import type { LayoutTable } from "../pages/layout-table.ts";
import type { MetadataNode, MetadataPath } from "../pages/metadata-tree.ts";
import type { SimilarityMatrix } from "../pages/sentences.ts";
import type { BlockTable, HeatMap, HeatMapRequest, SliceRequest, ValueSlice } from "../pages/tensor-reads.ts";
import type { SortKey, TensorTable } from "../pages/tensor-table.ts";
import type { EntryRow, Preview } from "../pages/vault-entries.ts";
import type { VerifyProgress } from "../pages/verifying.ts";
import type { OpenReply, OpenRequest } from "./protocol.ts";

interface Of {
  readonly target: number;
}

interface OfTensor extends Of {
  readonly name: string;
}

interface Call<Request, Result, Progress = never> {
  readonly request: Request;
  readonly result: Result;
  readonly progress: Progress;
}

/** Bytes processed since the last message. */
export interface BytesDone {
  readonly bytes: number;
}

export interface Comparison {
  readonly kind: "models" | "archives";
  readonly models?: DiffReport | undefined;
  readonly archives?: ArchiveDiffReport | undefined;
}

/** Every call that the page can make to the reader. Requests, results and progress are structured-clonable. */
export interface ReaderCalls {
  readonly open: Call<OpenRequest, OpenReply>;
  readonly close: Call<Of, undefined>;
  readonly layout: Call<Of, LayoutTable>;
  readonly verify: Call<Of, Report, VerifyProgress>;
  readonly tensors: Call<Of, TensorTable>;
  readonly sortTensors: Call<Of & { readonly key: SortKey }, Uint32Array>;
  readonly statistics: Call<OfTensor & { readonly bins: number }, TensorStatistics, BytesDone>;
  readonly heatMap: Call<HeatMapRequest, HeatMap>;
  readonly slice: Call<SliceRequest, ValueSlice>;
  readonly blocks: Call<OfTensor & { readonly first: number; readonly count: number }, BlockTable>;
  readonly downloadTensor: Call<OfTensor & { readonly as: "npy" | "raw" }, Blob, BytesDone>;
  readonly metadata: Call<
    Of & { readonly path: MetadataPath; readonly start: number; readonly end: number },
    readonly MetadataNode[]
  >;
  readonly searchMetadata: Call<
    Of & { readonly text: string },
    { readonly nodes: readonly MetadataNode[]; readonly more: number }
  >;
  readonly hex: Call<Of & { readonly part: number; readonly offset: number; readonly byteLength: number }, HexPage>;
  readonly fields: Call<
    Of & { readonly part: number; readonly offset: number; readonly byteLength: number },
    readonly FieldRow[]
  >;
  readonly compare: Call<{ readonly a: number; readonly b: number }, Comparison, BytesDone>;
  readonly entries: Call<Of, readonly EntryRow[]>;
  readonly preview: Call<Of & { readonly path: string }, Preview>;
  readonly downloadEntry: Call<Of & { readonly path: string }, Blob, BytesDone>;
  readonly embed: Call<Of & { readonly texts: readonly string[] }, SimilarityMatrix>;
}

/** Adds up the progress of each piece. */
export function sumBytes(tell: (total: number) => void): (progress: BytesDone) => void {
  let total = 0;
  return ({ bytes }) => {
    total += bytes;
    tell(total);
  };
}
