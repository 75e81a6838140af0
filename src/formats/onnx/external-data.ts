import { FormatError, isTareError, type Location, SourceError, UsageError } from "../../base/errors.ts";
import { checkLimit } from "../../base/limits.ts";
import { withoutDots } from "../../base/name-set.ts";
import { printable } from "../../base/text.ts";
import type { Extent } from "../../bytes/extents.ts";
import type { Source } from "../../bytes/source.ts";
import type { OpenContext } from "../../model/format.ts";

/** A run of a file next to the model. */
export interface ExternalRun extends Extent {
  readonly source: Source;
}

/** Opens the files that tensors refer to, each once; the model closes them. */
export class ExternalFiles {
  readonly #context: OpenContext;
  readonly #maxFiles: number;
  readonly #opened = new Map<string, Source>();

  constructor(context: OpenContext, maxFiles: number) {
    this.#context = context;
    this.#maxFiles = maxFiles;
  }

  /** In the order in which they were first named. */
  get sources(): readonly Source[] {
    return [...this.#opened.values()];
  }

  /**
   * The run that a tensor's external_data names, checked against the file. `byteLength` is the length that the tensor
   * needs.
   */
  async find(entries: ReadonlyMap<string, string>, byteLength: number | undefined, at: Location): Promise<ExternalRun> {
    const location = entries.get("location");
    if (location === undefined || location === "") throw badReference("it must have a location", at);
    const offset = decimal(entries, "offset", at) ?? 0;
    const source = await this.#open(location, at);
    const left = source.byteLength - offset;
    const length = decimal(entries, "length", at) ?? byteLength ?? left;
    if (offset <= source.byteLength && length <= left) return { source, offset, byteLength: length };
    throw badReference(
      `"${printable(location)}" must have ${length} bytes at ${offset}, found ${Math.max(0, left)}`,
      at,
    );
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.sources.map((source) => source.close()));
  }

  async #open(location: string, at: Location): Promise<Source> {
    // Some exporters write "./model.onnx_data". The resolver refuses anything else that is not a plain relative name.
    const name = withoutDots(location);
    const known = this.#opened.get(name);
    if (known !== undefined) return known;
    const { resolver, signal } = this.#context;
    if (resolver === undefined) {
      const message = `Cannot read external data: "${printable(location)}" must be reachable beside the model`;
      throw new UsageError("usage/onnx.no-siblings", message, at, {
        hint: "Open the model by its path or address, with its data files beside it",
      });
    }
    checkLimit(this.#opened.size + 1, this.#maxFiles, "this many files", "limit/onnx.external-files", at);
    const source = await resolver.resolve(name, { signal }).catch((error: unknown) => {
      throw located(error, at);
    });
    this.#opened.set(name, source);
    return source;
  }
}

function decimal(entries: ReadonlyMap<string, string>, key: string, at: Location): number | undefined {
  const text = entries.get(key);
  if (text === undefined || text === "") return undefined;
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  throw badReference(`${key} must be a decimal number, found "${printable(text)}"`, at);
}

function badReference(what: string, at: Location): FormatError {
  return new FormatError("format/onnx.external", `Cannot use ONNX external_data: ${what}`, at);
}

/** The same failure, located at the place in the model that names the file. */
function located(error: unknown, at: Location): unknown {
  if (!isTareError(error) || !(error instanceof SourceError)) return error;
  const { code, message, hint, transient } = error;
  return new SourceError(code, message, at, { hint, transient, cause: error });
}
