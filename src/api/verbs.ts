import type { Embedder } from "../embedding/embedder.ts";
import type { Model } from "../model/model.ts";
import type { EmbedFileResult, EmbedOptions, EmbedResult, SearchResult, SimilarityResult } from "./embed/embed.ts";
import type { EmbedderOptions } from "./embed/load.ts";
import type { ExplainAllResult, ExplainResult } from "./help/explain.ts";
import { type VerbHost, withDoubts, withStreams } from "./host.ts";
import type { Input } from "./inputs.ts";
import type { DiffOptions, DiffResult } from "./look/diff.ts";
import type { InspectOptions, InspectResult } from "./look/inspect.ts";
import type { ListOptions, ListResult } from "./look/list.ts";
import type { MapOptions, MapResult } from "./look/map.ts";
import type { MetaOptions, MetaResult } from "./look/meta.ts";
import type { StatsOptions, StatsResult } from "./look/stats.ts";
import type { CatOptions, CatResult } from "./move/cat.ts";
import type { ConvertOptions, ConvertResult } from "./move/convert.ts";
import type { DequantizeOptions } from "./move/dequantize.ts";
import type { ExtractOptions, ExtractResult } from "./move/extract.ts";
import type { QuantizeOptions, QuantizeResult } from "./move/quantize.ts";
import type { MergeOptions, ShardOptions } from "./move/shard.ts";
import type { StampOptions, StampResult } from "./move/stamp.ts";
import type { UpgradeOptions, UpgradeResult } from "./move/upgrade.ts";
import type { CommonOptions, OneOrMany } from "./options.ts";
import type { Output } from "./outputs.ts";
import type { SignOptions, SignResult } from "./trust/sign.ts";
import type { VerifyOptions, VerifyResult } from "./trust/verify.ts";
import type { VaultOptions } from "./vault/options.ts";
import type { VaultExtractResult } from "./vault/results.ts";
import type { Vault } from "./vault/vault.ts";

/** The verbs of the library on one runtime. Each is loaded when it is called: programs rarely need more than one. */
export interface Verbs {
  /**
   * Opens a model or a vault, whichever it is: its kind says so. Reads its control region alone.
   *
   * @example
   * await using opened = await open("https://models.example/models.aerovault", { password: "correct horse battery" });
   * console.log(opened.kind, opened.format);
   */
  open(input: Input, options?: CommonOptions): Promise<Model | Vault>;
  /**
   * Opens a model; a vault is `usage/not-a-model`. Reads its control region alone.
   *
   * @example
   * await using model = await openModel("https://models.example/model.safetensors");
   * const rows = await model.tensor("model.embed_tokens.weight").rows(42, 44).toFloat32();
   */
  openModel(input: Input, options?: CommonOptions): Promise<Model>;
  /**
   * The facts that a user wants first: format, size, model, types, metadata, warnings. Reads the control region alone.
   *
   * @example
   * const { format, parameterCount } = await inspect("https://models.example/model.safetensors");
   */
  inspect(input: Input, options?: InspectOptions): Promise<InspectResult>;
  /**
   * The tensors of a model, or the entries of a vault.
   *
   * @example
   * const { tensors = [] } = await list("https://models.example/model.safetensors", { glob: "*.layers.0.*" });
   * for (const { name, dtype, shape } of tensors) console.log(name, dtype, shape);
   */
  list(input: Input, options?: ListOptions): Promise<ListResult>;
  /**
   * Every key and value of a model's metadata, or the value of one key; arrays are whole. A key that is not there is
   * `usage/key-not-found`.
   *
   * @example
   * const { value } = await meta("https://models.example/model.gguf", "general.architecture");
   * const { metadata = {} } = await meta("https://models.example/model.gguf");
   */
  meta(input: Input, options?: MetaOptions): Promise<MetaResult>;
  meta(input: Input, key: string, options?: CommonOptions): Promise<MetaResult>;
  /**
   * Where everything lies: each byte of each file belongs to one row.
   *
   * @example
   * const { rows } = await map("https://models.example/model.safetensors");
   * const unused = rows.filter(({ kind }) => kind === "gap");
   */
  map(input: Input, options?: MapOptions): Promise<MapResult>;
  /**
   * What differs between two models, bit for bit and by name, whatever their formats; or between two vaults.
   *
   * @example
   * const { equal, changed } = await diff("https://models.example/a.gguf", "https://models.example/b.safetensors");
   */
  diff(a: Input, b: Input, options?: DiffOptions): Promise<DiffResult>;
  /**
   * Least and greatest value, mean, deviation, NaN and infinities of each tensor. Reads all of them.
   *
   * @example
   * const { tensors } = await stats("https://models.example/model.safetensors", { glob: "*norm*", hist: 24 });
   */
  stats(input: Input, options?: StatsOptions): Promise<StatsResult>;
  /**
   * Checks structure, contents and digests, and collects what it finds. Rejects if the input cannot be read, never
   * because of what is in it.
   *
   * @example
   * const { ok, findings } = await verify("https://models.example/model.aero");
   * for (const { severity, code, message } of findings) console.log(severity, code, message);
   */
  verify(input: Input, options?: VerifyOptions): Promise<VerifyResult>;
  /**
   * Signs in the file if the format has room for it, else beside it. Without `output`, a file on disk is signed in
   * its place.
   *
   * @example
   * const out = memory();
   * await sign(file, { key: privatePem, output: out });
   */
  sign(input: Input, options: SignOptions): Promise<SignResult>;
  /**
   * Edits metadata and leaves the tensors alone: in place where the input is a path or a file handle, else to `output`.
   *
   * @example
   * const { changes } = await stamp(handle, { set: { license: "MIT" }, unset: "notes" });
   */
  stamp(input: Input, options?: StampOptions): Promise<StampResult>;
  /**
   * Writes the bytes of one tensor, or of one file of a vault. Reads only those.
   *
   * @example
   * const out = memory();
   * await cat("https://models.example/model.safetensors", "wte.weight", out, { rows: [0, 10], as: "npy" });
   */
  cat(input: Input, name: string, output: Output, options?: CatOptions): Promise<CatResult>;
  /**
   * Writes tensors as files of their own, or the files of a vault.
   *
   * @example
   * const out = memory();
   * await extract("https://models.example/model.safetensors", out, { glob: "*norm*", as: "npy" });
   */
  extract(input: Input, output: Output, options?: ExtractOptions): Promise<ExtractResult | VaultExtractResult>;
  /**
   * Opens a vault: for reading everywhere, and in Node also for changes, where the input is the path of a vault of
   * version 3. Close it when done.
   *
   * @example
   * await using vault = await openVault("https://models.example/models.aerovault", { password: async () => "secret" });
   * const text = new TextDecoder().decode(await vault.read("notes/readme.md"));
   */
  openVault(input: Input, options?: VaultOptions): Promise<Vault>;
  /**
   * Converts a model to another format, streaming. Nothing is visible at the output before it is complete, except in a
   * stream.
   *
   * @example
   * const out = memory();
   * await convert("https://models.example/model.safetensors", out, { to: "gguf" });
   */
  convert(input: Input, output: Output, options?: ConvertOptions): Promise<ConvertResult>;
  /**
   * Makes blocks of ggml of a model's matrices: the bytes that `llama-quantize --pure` would make.
   *
   * @example
   * const out = memory();
   * await quantize("https://models.example/model.gguf", out, { type: "q8_0", to: "gguf" });
   */
  quantize(input: Input, output: Output, options: QuantizeOptions): Promise<QuantizeResult>;
  /**
   * Makes floats of blocks, bit for bit as ggml reads them.
   *
   * @example
   * const out = memory();
   * await dequantize("https://models.example/small.gguf", out, { type: "f16", to: "safetensors" });
   */
  dequantize(input: Input, output: Output, options?: DequantizeOptions): Promise<ConvertResult>;
  /**
   * Writes a model as several files of the same format, of at most so much tensor data each.
   *
   * @example
   * const out = memory();
   * await shard("https://models.example/model.safetensors", out, { maxSize: "5GB" });
   */
  shard(input: Input, output: Output, options: ShardOptions): Promise<ConvertResult>;
  /**
   * Writes a model that consists of several files as one. The input is the index, the first of the files, or their
   * folder.
   *
   * @example
   * const out = memory();
   * await merge("https://models.example/model.safetensors.index.json", out);
   */
  merge(input: Input, output: Output, options?: MergeOptions): Promise<ConvertResult>;
  /**
   * Writes an old APR file in the layout of APR v2; in Node also a vault of version 1 or 2 as one of version 3.
   *
   * @example
   * const out = memory();
   * await upgrade("https://models.example/old.apr", out);
   */
  upgrade(input: Input, output: Output, options?: UpgradeOptions): Promise<UpgradeResult>;
  /**
   * What the code of an error or a finding means, and what to do about it. Without a code, all of them.
   *
   * @example
   * const { what, why, fix } = await explain("unsupported/lossy");
   */
  explain(code: string): Promise<ExplainResult>;
  explain(): Promise<ExplainAllResult>;
  /**
   * Sentences to vectors, by a BERT model in any format. With `similarity`, `search` or `as`, what is made of them.
   *
   * @example
   * const { vectors } = await embed("https://models.example/minilm.weights", ["a small cat", "a kitten"]);
   */
  embed(
    weights: Input,
    texts: readonly string[],
    options: EmbedOptions & { readonly similarity: true },
  ): Promise<SimilarityResult>;
  embed(
    weights: Input,
    query: string,
    options: EmbedOptions & { readonly search: readonly string[] | Input },
  ): Promise<SearchResult>;
  embed(
    weights: Input,
    texts: OneOrMany<string>,
    options: EmbedOptions & { readonly as: "npy" | "binary"; readonly output: Output },
  ): Promise<EmbedFileResult>;
  embed(weights: Input, texts: OneOrMany<string>, options?: EmbedOptions): Promise<EmbedResult>;
  /**
   * For more than one call of `embed`: the model is loaded once. Closing the embedder closes what was opened for it.
   *
   * @example
   * await using embedder = await loadEmbedder("https://models.example/minilm.weights");
   * const [vector] = await embedder.embed(["a small cat"]);
   */
  loadEmbedder(weights: Input, options?: EmbedderOptions): Promise<Embedder>;
}

/** The verbs, with a host of their own for each call. */
export function verbsOn(host: () => Promise<VerbHost>): Verbs {
  const run = <T>(verb: (on: VerbHost) => Promise<T>, ...outputs: readonly unknown[]): Promise<T> =>
    withStreams(outputs, async () => {
      const on = await host();
      return withDoubts(on, await verb(on));
    });
  return {
    inspect: (...call) => run(async (on) => (await import("./look/index.ts")).inspect(on, ...call)),
    list: (...call) => run(async (on) => (await import("./look/index.ts")).list(on, ...call)),
    meta: ((...call: Parameters<Verbs["meta"]>) =>
      run(async (on) => (await import("./look/index.ts")).meta(on, ...call))) as Verbs["meta"],
    map: (...call) => run(async (on) => (await import("./look/index.ts")).map(on, ...call)),
    diff: (...call) => run(async (on) => (await import("./look/index.ts")).diff(on, ...call)),
    stats: (...call) => run(async (on) => (await import("./look/index.ts")).stats(on, ...call)),
    verify: (...call) => run(async (on) => (await import("./trust/verify.ts")).verify(on, ...call)),
    sign: (...call) => run(async (on) => (await import("./trust/sign.ts")).sign(on, ...call), outputIn(call[1])),
    stamp: (...call) => run(async (on) => (await import("./move/index.ts")).stamp(on, ...call), outputIn(call[1])),
    cat: (...call) => run(async (on) => (await import("./move/index.ts")).cat(on, ...call), call[2]),
    extract: (...call) => run(async (on) => (await import("./move/index.ts")).extract(on, ...call), call[1]),
    openVault: (...call) => run(async (on) => (await import("./vault/open.ts")).openVault(on, ...call)),
    convert: (...call) => run(async (on) => (await import("./move/index.ts")).convert(on, ...call), call[1]),
    quantize: (...call) => run(async (on) => (await import("./move/index.ts")).quantize(on, ...call), call[1]),
    dequantize: (...call) => run(async (on) => (await import("./move/index.ts")).dequantize(on, ...call), call[1]),
    shard: (...call) => run(async (on) => (await import("./move/index.ts")).shard(on, ...call), call[1]),
    merge: (...call) => run(async (on) => (await import("./move/index.ts")).merge(on, ...call), call[1]),
    upgrade: (...call) => run(async (on) => (await import("./move/index.ts")).upgrade(on, ...call), call[1]),
    explain: (async (code?: string) => (await import("./help/explain.ts")).explain(code)) as Verbs["explain"],
    open: (...call) => run(async (on) => (await import("./open/index.ts")).open(on, ...call)),
    openModel: (...call) => run(async (on) => (await import("./open/index.ts")).openModel(on, ...call)),
    embed: ((...call: Parameters<Verbs["embed"]>) =>
      run(async (on) => (await import("./embed/embed.ts")).embed(on, ...call), outputIn(call[2]))) as Verbs["embed"],
    loadEmbedder: (...call) => run(async (on) => (await import("./embed/load.ts")).loadEmbedder(on, ...call)),
  };
}

/** The output that options name; they are not checked yet. */
function outputIn(options: { readonly output?: Output | undefined } | undefined): unknown {
  return options?.output;
}

/** The verbs of pages, workers, and of Node without its file system. */
export const portableVerbs: Verbs = verbsOn(async () => (await import("./open/portable.ts")).portableHost);
