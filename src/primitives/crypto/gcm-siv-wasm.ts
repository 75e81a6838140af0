import type { Bytes } from "../../base/bytes.ts";
import { type KernelExports, loadKernel } from "../../kernels/load.ts";
import type { MakeAesBlocks } from "./aes-blocks.ts";
import type { GcmSiv } from "./gcm-siv.ts";
import { type BlockCipher, loadKernelGcmSiv } from "./gcm-siv-kernel.ts";

/** What src/kernels/aes.as.ts exports. */
interface AesKernel extends KernelExports {
  key(): number;
  schedule(): number;
  scheduleBytes(): number;
  blocks(): number;
  windowBytes(): number;
  expandKey(): void;
  encrypt(count: number): void;
  wipe(): void;
}

/** AES-256-GCM-SIV in WebAssembly alone. Its time depends on lengths only: nothing secret is an address or a branch. */
export async function loadGcmSivWasm(): Promise<GcmSiv> {
  const kernel = await loadAesKernel();
  return loadKernelGcmSiv((key) => new WasmCipher(kernel, key));
}

/** AES-256 on blocks, by the same kernel. */
export async function loadAesBlocksWasm(): Promise<MakeAesBlocks> {
  const kernel = await loadAesKernel();
  // Only older vaults go by single blocks.
  const [{ checkAesKey }, { CipherBlocks }] = await Promise.all([
    import("./aes-blocks.ts"),
    import("./cipher-blocks.ts"),
  ]);
  return (key) => {
    checkAesKey(key);
    return new CipherBlocks(new WasmCipher(kernel, key), kernel.windowBytes());
  };
}

async function loadAesKernel(): Promise<AesKernel> {
  const { WASM } = await import("../../kernels/generated/aes.ts");
  return loadKernel<AesKernel>(WASM);
}

/** Keeps its own round keys and puts them into the kernel for each call, so any number share one kernel. */
class WasmCipher implements BlockCipher {
  readonly #kernel: AesKernel;
  readonly #schedule: Bytes;

  constructor(kernel: AesKernel, key: Bytes) {
    this.#kernel = kernel;
    this.#memory(kernel.key(), key.byteLength).set(key);
    kernel.expandKey();
    this.#schedule = this.#memory(kernel.schedule(), kernel.scheduleBytes()).slice();
  }

  encrypt(blocks: Bytes): Bytes {
    const kernel = this.#kernel;
    const window = this.#memory(kernel.blocks(), blocks.byteLength);
    this.#memory(kernel.schedule(), this.#schedule.byteLength).set(this.#schedule);
    window.set(blocks);
    kernel.encrypt(blocks.byteLength / 16);
    return window;
  }

  wipe(): void {
    this.#schedule.fill(0);
    this.#kernel.wipe();
    this.#memory(this.#kernel.blocks(), this.#kernel.windowBytes()).fill(0);
  }

  #memory(at: number, byteLength: number): Bytes {
    return new Uint8Array(this.#kernel.memory.buffer as ArrayBuffer, at, byteLength);
  }
}
