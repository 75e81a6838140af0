import type { Bytes } from "../../base/bytes.ts";
import { sliceSource } from "../../bytes/slice.ts";
import type { Source, SourceDescriptor } from "../../bytes/source.ts";
import { type AvecPlan, avecPayload, type ParityGrid, planAvec } from "../../model/parity/avec.ts";
import { type HealedGroup, healGroup } from "../../model/parity/heal.ts";
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

/** The payload of a window of an open source. */
export function windowParity(
  source: Source,
  { offset, byteLength, grid }: Omit<ParityRequest, "descriptor">,
  { engine, signal, onProgress }: Omit<ParityHost, "open">,
): Promise<Bytes> {
  const data = sliceSource(source, offset, byteLength);
  return avecPayload({ engine, plan: planAvec(grid, byteLength), data, signal, onProgress });
}

/** A group of shards of a window of a file. */
export interface GroupPlace {
  readonly plan: AvecPlan;
  readonly windowOffset: number;
  /** Offset of the window's payload in the sidecar. */
  readonly payloadOffset: number;
  readonly group: number;
}

/** The same for any thread that can open the file and its sidecar. */
export interface HealRequest extends GroupPlace {
  readonly file: SourceDescriptor;
  readonly sidecar: SourceDescriptor;
  /** Comes back with the result. */
  readonly memory: Bytes;
}

/** Reads a group, examines it and heals it. */
export async function runHealJob(request: HealRequest, host: ParityHost): Promise<HealedGroup> {
  const file = await host.open(request.file);
  try {
    const sidecar = await host.open(request.sidecar);
    try {
      return await healPlace(file, sidecar, request, { engine: host.engine, memory: request.memory });
    } finally {
      await sidecar.close();
    }
  } finally {
    await file.close();
  }
}

/** The same for open sources. */
export function healPlace(
  file: Source,
  sidecar: Source,
  { plan, windowOffset, payloadOffset, group }: GroupPlace,
  { engine, memory }: { readonly engine: Engine; readonly memory: Bytes },
): Promise<HealedGroup> {
  const data = sliceSource(file, windowOffset, plan.byteLength);
  const payload = sliceSource(sidecar, payloadOffset, plan.payloadBytes);
  return healGroup({ engine, plan, data, payload, group, memory });
}
