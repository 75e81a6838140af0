import type { Bytes } from "../../base/bytes.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source, SourceDescriptor } from "../../bytes/source.ts";
import { avecPayload, type ParityGrid, planAvec } from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";

/** The parity of one window, for any thread that can open the file. */
export interface ParityRequest {
  readonly descriptor: SourceDescriptor;
  readonly offset: number;
  readonly byteLength: number;
  readonly grid: ParityGrid;
}

export interface ParityHost {
  readonly engine: Engine;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((byteLength: number) => void) | undefined;
  open(descriptor: SourceDescriptor): Promise<Source>;
}

/** Reads a window and makes its payload. */
export async function runParityJob(request: ParityRequest, host: ParityHost): Promise<Bytes> {
  const source = await host.open(request.descriptor);
  try {
    return await windowParity(source, request, host);
  } finally {
    await source.close();
  }
}

/** The payload of a window of a source that is open. */
export function windowParity(
  source: Source,
  { offset, byteLength, grid }: Omit<ParityRequest, "descriptor">,
  { engine, signal, onProgress }: Omit<ParityHost, "open">,
): Promise<Bytes> {
  const data = sliceSource(source, offset, byteLength);
  return avecPayload({ engine, plan: planAvec(grid, byteLength), data, signal, onProgress });
}
