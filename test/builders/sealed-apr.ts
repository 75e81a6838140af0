import type { Bytes } from "../../src/base/bytes.ts";
import { encodeUtf8 } from "../../src/base/text.ts";
import { type MemoryOutput, memoryOutput } from "../../src/bytes/memory.ts";
import { writer } from "../../src/formats/apr/write.ts";
import type { PasswordSource, WriteOptions } from "../../src/model/format.ts";
import { Metadata, stringValue } from "../../src/model/metadata.ts";
import type { Tensor } from "../../src/model/tensor.ts";
import type { Engine } from "../../src/primitives/engine.ts";
import { portableEngine } from "../../src/primitives/portable.ts";
import { float32Tensor, memoryTensor } from "./tensors.ts";

/** The cheapest that is accepted; with the engine of tests it costs nothing at all. */
export const CHEAP = { memoryKib: 19 << 10, passes: 1, lanes: 1 } as const;

/** Everything real but Argon2id: there a digest of password and salt, since its answers are tested by themselves. */
export function quickEngine(): Engine {
  const base = portableEngine();
  return new Proxy(base, {
    get(target, name) {
      if (name === "argon2id") {
        return async (password: Bytes, { salt }: { readonly salt: Bytes }) => {
          const hasher = await target.hasher("sha256");
          hasher.update(password);
          hasher.update(salt);
          return hasher.digest();
        };
      }
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Gives this text to whoever asks. */
export function passwordOf(text: string): PasswordSource {
  return async () => encodeUtf8(text);
}

/** Bytes that differ from call to call and are the same in every run. */
export function countingRandom(): (byteLength: number) => Bytes {
  let next = 1;
  const draw = (): number => {
    next = (next * 75 + 74) % 65537;
    return next & 0xff;
  };
  return (byteLength) => Uint8Array.from({ length: byteLength }, draw);
}

/** Three segments and a bit: two that are full, one short. */
export const LONG_BYTES = 2 * 65536 + 1000;

export function longTensor(name = "long"): Tensor {
  const bytes = Uint8Array.from({ length: LONG_BYTES }, (_, i) => (i * 31 + (i >> 8)) & 0xff);
  return memoryTensor(name, "U8", [LONG_BYTES], bytes);
}

export function smallTensors(): Tensor[] {
  return [
    float32Tensor("a", [1, 2, 3]),
    float32Tensor("b", [4, 5, 6]),
    memoryTensor("none", "F32", [0], new Uint8Array(0)),
  ];
}

/** Writes tensors as an encrypted file, or set, in memory. */
export async function writeSealedApr(
  tensors: readonly Tensor[],
  engine: Engine,
  options: Partial<WriteOptions> & { readonly password?: string } = {},
): Promise<MemoryOutput> {
  const { password = "right", ...others } = options;
  const output = memoryOutput("m.apr");
  const metadata = new Metadata([{ key: "note", value: stringValue("kept") }]);
  const encrypt = { password: passwordOf(password), cost: CHEAP, random: countingRandom() };
  const plan = writer.plan({ metadata, tensors, chain: [] }, { name: "m.apr", encrypt, ...others });
  await writer.write(plan, output, { engine });
  return output;
}
