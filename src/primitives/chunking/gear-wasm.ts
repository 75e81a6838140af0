import type { Bytes } from "../../base/bytes.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import { checkGearRule, type Gear, type GearChunker, type GearRule, gearBound } from "./gear.ts";

/** 256 numbers of 64 bits. */
const TABLE_BYTES = 2048;

/** What src/kernels/gear.as.ts exports. */
interface GearKernel extends KernelExports {
  table(): number;
  hash(): number;
  length(): number;
  shortest(): number;
  longest(): number;
  bound(): number;
  cuts(): number;
  input(): number;
  windowBytes(): number;
  scanShifted(byteLength: number): number;
  scanRotated(byteLength: number): number;
}

/** Gear chunking in WebAssembly. */
export async function loadGearWasm(): Promise<Gear> {
  const { WASM } = await import("../../kernels/generated/gear.ts");
  const room = new GearRoom(await loadKernel<GearKernel>(WASM));
  return (rule) => new WasmChunker(room, rule);
}

/** The kernel and its memory, which all chunkers use in turn. */
class GearRoom {
  readonly kernel: GearKernel;
  readonly view: DataView;
  readonly table: Bytes;
  readonly input: Bytes;
  readonly hashAt: number;
  readonly lengthAt: number;

  constructor(kernel: GearKernel) {
    const buffer = kernel.memory.buffer as ArrayBuffer;
    this.kernel = kernel;
    this.view = new DataView(buffer);
    this.table = new Uint8Array(buffer, kernel.table(), TABLE_BYTES);
    this.input = new Uint8Array(buffer, kernel.input(), kernel.windowBytes());
    this.hashAt = kernel.hash();
    this.lengthAt = kernel.length();
  }
}

/** Copies its table and state in before each piece and the state out after it, so any number share one kernel. */
class WasmChunker implements GearChunker {
  readonly #room: GearRoom;
  readonly #rule: GearRule;
  readonly #table: Bytes = new Uint8Array(TABLE_BYTES);
  readonly #bound: bigint;
  #hash = 0n;
  #length = 0;

  constructor(room: GearRoom, rule: GearRule) {
    checkGearRule(rule);
    this.#room = room;
    this.#rule = rule;
    this.#bound = gearBound(rule);
    const view = new DataView(this.#table.buffer);
    rule.table.forEach((value, i) => {
      view.setBigUint64(8 * i, value, true);
    });
  }

  push(piece: Bytes): number[] {
    const { kernel, view, input, hashAt, lengthAt } = this.#room;
    const found: number[] = [];
    this.#enter();
    const cuts = kernel.cuts();
    for (let at = 0; at < piece.byteLength; at += input.byteLength) {
      const part = piece.subarray(at, at + input.byteLength);
      input.set(part);
      const count =
        this.#rule.step === "shift" ? kernel.scanShifted(part.byteLength) : kernel.scanRotated(part.byteLength);
      for (let i = 0; i < count; i++) found.push(at + view.getUint32(cuts + 4 * i, true));
    }
    this.#hash = view.getBigUint64(hashAt, true);
    this.#length = view.getUint32(lengthAt, true);
    return found;
  }

  end(): number {
    const length = this.#length;
    this.#hash = 0n;
    this.#length = 0;
    return length;
  }

  #enter(): void {
    const { kernel, view, table, hashAt, lengthAt } = this.#room;
    table.set(this.#table);
    view.setBigUint64(hashAt, this.#hash, true);
    view.setUint32(lengthAt, this.#length, true);
    view.setUint32(kernel.shortest(), this.#rule.minBytes, true);
    view.setUint32(kernel.longest(), this.#rule.maxBytes, true);
    view.setBigUint64(kernel.bound(), this.#bound, true);
  }
}
