import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { addChacha20, chachaState } from "./chacha20.ts";
import { CHACHA_TAG_BYTES, type ChachaKey, type ChachaPoly, checkChacha, wipedChacha } from "./chacha20-poly1305.ts";
import { equalSecrets } from "./hmac.ts";
import { Poly1305 } from "./poly1305.ts";

/** ChaCha20-Poly1305 in plain TypeScript: no browser has it. Nothing secret is an address or a branch. */
export const chachaJavascript: ChachaPoly = (key) => {
  checkChacha("key", key);
  return new JavascriptChacha(key.slice());
};

class JavascriptChacha implements ChachaKey {
  readonly #key: Bytes;
  #isWiped = false;

  constructor(key: Bytes) {
    this.#key = key;
  }

  seal(nonce: Bytes, plain: Bytes, associated: Bytes): Bytes {
    this.#check(nonce);
    const state = chachaState(this.#key, nonce);
    const text = addChacha20(state, 1, plain);
    return concatBytes([text, tagOf(state, text, associated)]);
  }

  open(nonce: Bytes, sealed: Bytes, associated: Bytes): Bytes | undefined {
    this.#check(nonce);
    const end = sealed.byteLength - CHACHA_TAG_BYTES;
    if (end < 0) return undefined;
    const state = chachaState(this.#key, nonce);
    const text = sealed.subarray(0, end);
    const isRight = equalSecrets(tagOf(state, text, associated), sealed.subarray(end));
    return isRight ? addChacha20(state, 1, text) : undefined;
  }

  wipe(): void {
    this.#key.fill(0);
    this.#isWiped = true;
  }

  #check(nonce: Bytes): void {
    checkChacha("nonce", nonce);
    if (this.#isWiped) throw wipedChacha();
  }
}

/** RFC 8439 §2.8: block 0 of the key stream is the key of the tag, over both parts and both lengths. */
function tagOf(state: Int32Array, text: Bytes, associated: Bytes): Bytes {
  const mac = new Poly1305(addChacha20(state, 0, new Uint8Array(32)));
  mac.update(associated);
  mac.update(text);
  const lengths = new DataView(new ArrayBuffer(16));
  lengths.setBigUint64(0, BigInt(associated.byteLength), true);
  lengths.setBigUint64(8, BigInt(text.byteLength), true);
  mac.update(new Uint8Array(lengths.buffer));
  return mac.digest();
}
