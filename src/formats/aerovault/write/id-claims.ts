/** Half full at most: probing stays short. */
const LOAD = 2;
const LEAST_SLOTS = 1 << 12;
/** 64 MiB; what does not fit is sealed twice at worst. */
const MOST_SLOTS = 1 << 23;
/** A table this full at one place takes no more. */
const LONGEST_PROBE = 64;

/** Memory that several threads look at. */
export type ClaimMemory = BigInt64Array<SharedArrayBuffer>;

/**
 * Chunk ids that are stored or being sealed, shared by all threads, so that no chunk is compressed twice. It keeps 64 bits
 * of each id: two chunks may look alike here, so that "taken" is only a hint, and the thread that keeps the records
 * makes sure.
 */
export class IdClaims {
  readonly memory: ClaimMemory;

  constructor(memory: ClaimMemory) {
    this.memory = memory;
  }

  /** Undefined where threads cannot share memory, as in most web pages. */
  static create(expected: number): IdClaims | undefined {
    if (typeof SharedArrayBuffer === "undefined") return undefined;
    let slots = LEAST_SLOTS;
    while (slots < expected * LOAD && slots < MOST_SLOTS) slots *= 2;
    return new IdClaims(new BigInt64Array(new SharedArrayBuffer(slots * 8)));
  }

  /** "yours" for whoever asks first, or where there is no room to remember; "taken" for all others. */
  claim(id: string): "yours" | "taken" {
    const mask = this.memory.length - 1;
    // Zero is a free slot.
    const key = BigInt.asIntN(64, BigInt(`0x${id.slice(0, 16)}`)) || 1n;
    let slot = Number.parseInt(id.slice(16, 24), 16) & mask;
    for (let probe = 0; probe < LONGEST_PROBE; probe++) {
      const before = Atomics.compareExchange(this.memory, slot, 0n, key);
      if (before === 0n) return "yours";
      if (before === key) return "taken";
      slot = (slot + 1) & mask;
    }
    return "yours";
  }
}
