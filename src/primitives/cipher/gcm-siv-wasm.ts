import type { Bytes } from "../../base/bytes.ts";
import { type KernelExports, loadFirstKernel, loadKernel } from "../../kernels/load.ts";
import { equalSecrets } from "../crypto/hmac.ts";
import { wipe } from "../crypto/secrets.ts";
import { AES_KEY_BYTES, type BlockCipher, CipherBlocks, checkAesKey, type MakeAesBlocks } from "./aes.ts";
import {
  checkGcmSiv,
  derivationBlocks,
  derivedKeys,
  encodeLengths,
  firstCounter,
  GCM_SIV_TAG_BYTES,
  type GcmSiv,
  type GcmSivKey,
  roomFor,
  tagInput,
  wipedKey,
} from "./gcm-siv.ts";

export type { BlockCipher } from "./aes.ts";

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

/** AES-256-GCM-SIV in WebAssembly alone. Its time depends on lengths only: no address or branch depends on a secret. */
export async function loadGcmSivWasm(): Promise<GcmSiv> {
  const kernel = await loadAesKernel();
  return loadKernelGcmSiv((key) => new WasmCipher(kernel, key));
}

/** AES-256 on blocks, by the same kernel. */
export async function loadAesBlocksWasm(): Promise<MakeAesBlocks> {
  const kernel = await loadAesKernel();
  return (key) => {
    checkAesKey(key);
    return new CipherBlocks(new WasmCipher(kernel, key), kernel.windowBytes());
  };
}

async function loadAesKernel(): Promise<AesKernel> {
  const { WASM } = await import("../../kernels/generated/aes.ts");
  return loadKernel<AesKernel>(WASM);
}

/** Keeps its own round keys and copies them into the kernel for each call, so any number share one kernel. */
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

const BLOCK_BYTES = 16;
/** How much src/kernels/polyval.as.ts hashes side by side. */
const GROUP_BYTES = 256;

/** What src/kernels/polyval.as.ts exports. */
interface PolyvalKernel extends KernelExports {
  key(): number;
  sum(): number;
  counter(): number;
  text(): number;
  stream(): number;
  windowBytes(): number;
  setKey(): void;
  hashBlocks(offset: number, count: number): void;
  beginGroups(): void;
  hashGroups(count: number): void;
  endGroups(): void;
  counters(count: number): void;
  add(byteLength: number): void;
  wipe(): void;
}

/**
 * AES-256-GCM-SIV with POLYVAL from our kernel and AES from elsewhere: the host's, or another kernel. Tries `builds` of
 * the kernel before the one that only needs SIMD.
 */
export async function loadKernelGcmSiv(
  makeCipher: (key: Bytes) => BlockCipher,
  builds: readonly (() => Promise<string>)[] = [],
): Promise<GcmSiv> {
  const plain = async (): Promise<string> => (await import("../../kernels/generated/polyval.ts")).WASM;
  const kernel = await loadFirstKernel<PolyvalKernel>([...builds, plain]);
  const windows = new Windows(kernel);
  return (key) => new KernelGcmSivKey(windows, makeCipher, key);
}

/**
 * The kernel and its memory. A message uses it from start to end without a pause, so all keys can share it. `clear`
 * removes every trace of the message.
 */
class Windows {
  readonly byteLength: number;
  readonly #kernel: PolyvalKernel;
  readonly #text: Bytes;
  readonly #stream: Bytes;
  readonly #key: Bytes;
  readonly #sum: Bytes;
  readonly #counter: Bytes;
  #isGrouping = false;
  #used = 0;

  constructor(kernel: PolyvalKernel) {
    const buffer = kernel.memory.buffer as ArrayBuffer;
    this.byteLength = kernel.windowBytes();
    this.#kernel = kernel;
    this.#text = new Uint8Array(buffer, kernel.text(), this.byteLength);
    this.#stream = new Uint8Array(buffer, kernel.stream(), this.byteLength);
    this.#key = new Uint8Array(buffer, kernel.key(), BLOCK_BYTES);
    this.#sum = new Uint8Array(buffer, kernel.sum(), BLOCK_BYTES);
    this.#counter = new Uint8Array(buffer, kernel.counter(), BLOCK_BYTES);
  }

  /** Copies at most a window of text into the kernel's memory. */
  put(text: Bytes): void {
    this.#text.set(text);
    this.#used = Math.max(this.#used, text.byteLength);
  }

  /** The window's first bytes, as they are now. */
  take(byteLength: number): Bytes {
    return this.#text.subarray(0, byteLength);
  }

  startHash(key: Bytes): void {
    this.#key.set(key);
    this.#kernel.setKey();
    this.#key.fill(0);
    this.#isGrouping = false; // a message that failed midway may have left it
  }

  /** Hashes the text that was put, padded with zeros. Only the last window of a part may be short. Changes the text. */
  hash(byteLength: number): void {
    const padded = Math.ceil(byteLength / BLOCK_BYTES) * BLOCK_BYTES;
    this.#text.fill(0, byteLength, padded);
    const groups = Math.floor(padded / GROUP_BYTES);
    if (groups > 0) {
      if (!this.#isGrouping) this.#kernel.beginGroups();
      this.#isGrouping = true;
      this.#kernel.hashGroups(groups);
    }
    const rest = padded - groups * GROUP_BYTES;
    if (rest === 0) return;
    this.endPart();
    this.#kernel.hashBlocks(groups * GROUP_BYTES, rest / BLOCK_BYTES);
  }

  endPart(): void {
    if (this.#isGrouping) this.#kernel.endGroups();
    this.#isGrouping = false;
  }

  sum(): Bytes {
    this.endPart();
    return this.#sum.slice();
  }

  startStream(counter: Bytes): void {
    this.#counter.set(counter);
  }

  /** Adds the next part of the key stream to the text that was put. */
  addStream(cipher: BlockCipher, byteLength: number): void {
    const blocks = Math.ceil(byteLength / BLOCK_BYTES);
    this.#kernel.counters(blocks);
    this.#stream.set(cipher.encrypt(this.#stream.subarray(0, BLOCK_BYTES * blocks)));
    this.#kernel.add(byteLength);
  }

  clear(): void {
    this.#kernel.wipe();
    // The kernel works on whole groups, so it also uses some bytes after the text.
    const used = Math.min(this.#used + GROUP_BYTES, this.byteLength);
    this.#text.fill(0, 0, used);
    this.#stream.fill(0, 0, used);
    this.#used = 0;
  }
}

class KernelGcmSivKey implements GcmSivKey {
  readonly #windows: Windows;
  readonly #makeCipher: (key: Bytes) => BlockCipher;
  #master: BlockCipher | undefined;

  constructor(windows: Windows, makeCipher: (key: Bytes) => BlockCipher, key: Bytes) {
    checkGcmSiv("key", key);
    this.#windows = windows;
    this.#makeCipher = makeCipher;
    this.#master = makeCipher(key);
  }

  seal(nonce: Bytes, plain: Bytes, associated: Bytes, into?: Bytes): Bytes {
    const end = plain.byteLength;
    const room = roomFor(into, end + GCM_SIV_TAG_BYTES);
    const cipher = this.#start(nonce, associated);
    const windows = this.#windows;
    for (const [from, to] of this.#steps(end)) {
      windows.put(plain.subarray(from, to));
      windows.hash(to - from);
    }
    const tag = this.#tag(cipher, nonce, [associated.byteLength, end]);
    windows.startStream(firstCounter(tag));
    for (const [from, to] of this.#steps(end)) {
      windows.put(plain.subarray(from, to));
      windows.addStream(cipher, to - from);
      room.set(windows.take(to - from), from);
    }
    room.set(tag, end);
    this.#finish(cipher);
    return room;
  }

  open(nonce: Bytes, sealed: Bytes, associated: Bytes, into?: Bytes): Bytes | undefined {
    const end = sealed.byteLength - GCM_SIV_TAG_BYTES;
    if (end < 0) return undefined;
    const tag = sealed.slice(end);
    const room = roomFor(into, end);
    const cipher = this.#start(nonce, associated);
    const windows = this.#windows;
    windows.startStream(firstCounter(tag));
    for (const [from, to] of this.#steps(end)) {
      windows.put(sealed.subarray(from, to));
      windows.addStream(cipher, to - from);
      room.set(windows.take(to - from), from);
      windows.hash(to - from);
    }
    const isRight = equalSecrets(this.#tag(cipher, nonce, [associated.byteLength, end]), tag);
    this.#finish(cipher);
    if (isRight) return room;
    wipe(room);
    return undefined;
  }

  wipe(): void {
    this.#master?.wipe();
    this.#master = undefined;
  }

  /** Derives the keys of the message and hashes the associated bytes. */
  #start(nonce: Bytes, associated: Bytes): BlockCipher {
    checkGcmSiv("nonce", nonce);
    if (this.#master === undefined) throw wipedKey();
    const enciphered = this.#master.encrypt(derivationBlocks(nonce));
    const keys = derivedKeys(enciphered);
    wipe(enciphered);
    const cipher = this.#makeCipher(keys.subarray(BLOCK_BYTES, BLOCK_BYTES + AES_KEY_BYTES));
    this.#windows.startHash(keys.subarray(0, BLOCK_BYTES));
    wipe(keys);
    for (const [from, to] of this.#steps(associated.byteLength)) {
      this.#windows.put(associated.subarray(from, to));
      this.#windows.hash(to - from);
    }
    this.#windows.endPart();
    return cipher;
  }

  #tag(cipher: BlockCipher, nonce: Bytes, [associated, plain]: readonly [number, number]): Bytes {
    this.#windows.endPart();
    this.#windows.put(encodeLengths(associated, plain));
    this.#windows.hash(BLOCK_BYTES);
    return cipher.encrypt(tagInput(this.#windows.sum(), nonce)).slice();
  }

  #finish(cipher: BlockCipher): void {
    cipher.wipe();
    this.#windows.clear();
  }

  *#steps(byteLength: number): Generator<readonly [from: number, to: number]> {
    const step = this.#windows.byteLength;
    for (let at = 0; at < byteLength; at += step) yield [at, Math.min(at + step, byteLength)];
  }
}
