import type { OnnxWeight } from "../../model/bert/onnx-weights.ts";
import type { Shape } from "../../model/dtype.ts";
import type { Node } from "./graph.ts";

/**
 * Exporters fold the transposition of linear weights into the initializer and name it "onnx::MatMul_123"; quantisers
 * add "_quantized". The graph still shows what the weight was: its product is added to a bias that has kept its name,
 * and nodes are named after their modules.
 */

/** What is known of an initializer by itself. */
interface InitializerFacts {
  readonly dtype: string;
  readonly shape: Shape;
}

type Initializers = ReadonlyMap<string, InitializerFacts>;

/** Most steps from a product to its bias: Cast and Mul of integer products, and one spare. */
const MAX_STEPS = 4;
const QUANTIZED = "_quantized";

/** The facts of every initializer whose name or form differs from the exported model's. */
export function recoverWeights(nodes: readonly Node[], initializers: Initializers): ReadonlyMap<string, OnnxWeight> {
  const graph = new Wiring(nodes, initializers);
  const weights = new Map<string, OnnxWeight>();
  for (const node of nodes) {
    const found = PRODUCTS.has(node.op) ? graph.product(node) : node.op === "Gather" ? graph.lookup(node) : undefined;
    if (found !== undefined && !weights.has(found.initializer)) weights.set(found.initializer, found.weight);
  }
  for (const name of initializers.keys()) {
    const weight = weights.has(name) ? undefined : graph.byConvention(name);
    if (weight !== undefined) weights.set(name, weight);
  }
  // A weight with its own name and form needs no facts.
  for (const [name, { name: own, layout, scale }] of weights) {
    if (name === own && layout === "as_is" && scale === undefined) weights.delete(name);
  }
  return weights;
}

const PRODUCTS: ReadonlySet<string> = new Set(["MatMul", "MatMulInteger", "DynamicQuantizeMatMul", "Gemm"]);

interface Found {
  readonly initializer: string;
  readonly weight: OnnxWeight;
}

/** The origin of a product's right operand. */
interface Operand {
  readonly initializer: string;
  readonly isTurned: boolean;
  readonly scale?: string | undefined;
  readonly zeroPoint?: string | undefined;
  readonly axis?: number | undefined;
}

/** The maker and the users of every value. */
class Wiring {
  readonly #initializers: Initializers;
  readonly #maker = new Map<string, Node>();
  readonly #users = new Map<string, Node[]>();
  readonly #dequantizers = new Map<string, Node | undefined>();
  /**
   * Cached by the steps that are left: without it, graphs in which values have many users would be walked again and
   * again.
   */
  readonly #addedBiases = Array.from({ length: MAX_STEPS + 1 }, () => new Map<string, string | undefined>());
  readonly #ownBiases = new Map<Node, string | undefined>();

  constructor(nodes: readonly Node[], initializers: Initializers) {
    this.#initializers = initializers;
    for (const node of nodes) {
      for (const output of node.outputs) this.#maker.set(output, node);
      for (const input of node.inputs) {
        const users = this.#users.get(input);
        if (users === undefined) this.#users.set(input, [node]);
        else if (users.at(-1) !== node) users.push(node);
      }
    }
  }

  /** The weight that a node multiplies with. */
  product(node: Node): Found | undefined {
    const operand = this.#operand(node.inputs[1] ?? "", MAX_STEPS);
    if (operand === undefined || this.#initializers.get(operand.initializer)?.shape.length !== 2) return undefined;
    const { initializer, isTurned, ...direct } = operand;
    const isTransposed = (node.op === "Gemm" && node.integers.get("transB") === 1) !== isTurned;
    const module = this.#biasModule(node) ?? modulePath(node.name) ?? moduleOf(initializer);
    if (module === undefined) return undefined;
    const layout = isTransposed ? "as_is" : "in_out";
    const quantization = direct.scale === undefined ? this.#integerScale(node, initializer) : direct;
    return { initializer, weight: { name: `${module}.weight`, layout, ...quantization } };
  }

  /** A quantised table whose rows are looked up, and then dequantised. */
  lookup(node: Node): Found | undefined {
    const [initializer = ""] = node.inputs;
    if (!this.#initializers.has(initializer)) return undefined;
    const user = this.#dequantizerOf(node.outputs[0] ?? "");
    const scale = user?.inputs[1];
    // The lookup has moved the rows, so only one scale for all of them makes sense.
    if (scale === undefined || !this.#isSingle(scale)) return undefined;
    const name = initializer.endsWith(QUANTIZED) ? initializer.slice(0, -QUANTIZED.length) : initializer;
    return { initializer, weight: { name, layout: "as_is", scale, zeroPoint: this.#known(user?.inputs[2]), axis: 0 } };
  }

  /** The first node that dequantises a value; many nodes may claim to make the same value. */
  #dequantizerOf(value: string): Node | undefined {
    if (!this.#dequantizers.has(value)) {
      this.#dequantizers.set(
        value,
        this.#users.get(value)?.find(({ op }) => op === "DequantizeLinear"),
      );
    }
    return this.#dequantizers.get(value);
  }

  /** X_quantized together with X_scale, no matter where it is used. */
  byConvention(initializer: string): OnnxWeight | undefined {
    if (!initializer.endsWith(QUANTIZED)) return undefined;
    const name = initializer.slice(0, -QUANTIZED.length);
    const scale = this.#known(`${name}_scale`);
    if (scale === undefined) return undefined;
    return { name, layout: "as_is", scale, zeroPoint: this.#known(`${name}_zero_point`), axis: 0 };
  }

  #known(name: string | undefined): string | undefined {
    return name !== undefined && this.#initializers.has(name) ? name : undefined;
  }

  #isSingle(name: string): boolean {
    const facts = this.#initializers.get(name);
    return facts !== undefined && facts.shape.reduce((product, dimension) => product * dimension, 1) === 1;
  }

  /** Follows a value back to the initializer that it is made from. */
  #operand(value: string, steps: number): Operand | undefined {
    if (this.#initializers.has(value)) return { initializer: value, isTurned: false };
    const maker = steps === 0 ? undefined : this.#maker.get(value);
    const [inner = "", scale, zeroPoint] = maker?.inputs ?? [];
    const before = maker === undefined ? undefined : this.#operand(inner, steps - 1);
    if (maker === undefined || before === undefined) return undefined;
    if (maker.op === "Transpose") return { ...before, isTurned: !before.isTurned };
    if (maker.op === "Identity" || maker.op === "Cast") return before;
    if (maker.op !== "DequantizeLinear" || this.#known(scale) === undefined) return undefined;
    const axis = maker.integers.get("axis") ?? 1;
    const rank = this.#initializers.get(before.initializer)?.shape.length ?? 0;
    return { ...before, scale, zeroPoint: this.#known(zeroPoint), axis: axis < 0 ? axis + rank : axis };
  }

  /** Integer products are scaled afterwards. The scale is found by its name: one value, or one per column. */
  #integerScale({ op, inputs }: Node, initializer: string): Pick<OnnxWeight, "scale" | "zeroPoint" | "axis"> {
    const stem = initializer.endsWith(QUANTIZED) ? initializer.slice(0, -QUANTIZED.length) : initializer;
    if (op === "MatMulInteger") {
      const scale = this.#known(`${stem}_scale`);
      return scale === undefined ? {} : { scale, zeroPoint: this.#known(inputs[3]), axis: 1 };
    }
    if (op !== "DynamicQuantizeMatMul") return {};
    // com.microsoft: A, B, b_scale, b_zero_point, bias
    return { scale: this.#known(inputs[2]), zeroPoint: this.#known(inputs[3]), axis: 1 };
  }

  /** "encoder.layer.0.output.dense", from the bias that is added to the node's output. */
  #biasModule(node: Node): string | undefined {
    const own = [
      node.op === "Gemm" ? node.inputs[2] : undefined,
      node.op === "DynamicQuantizeMatMul" ? node.inputs[4] : undefined,
    ];
    for (const name of own) {
      const module = name === undefined || !this.#initializers.has(name) ? undefined : biasOf(name);
      if (module !== undefined) return module;
    }
    return this.#addedBias(node.outputs[0] ?? "", MAX_STEPS);
  }

  #addedBias(value: string, steps: number): string | undefined {
    const known = this.#addedBiases[steps];
    if (known === undefined || steps === 0) return undefined;
    if (!known.has(value)) known.set(value, this.#findAddedBias(value, steps));
    return known.get(value);
  }

  /** The bias among the inputs of an addition. */
  #ownBias(node: Node): string | undefined {
    if (!this.#ownBiases.has(node)) {
      const bias = node.inputs.find((input) => this.#initializers.has(input));
      this.#ownBiases.set(node, bias === undefined ? undefined : biasOf(bias));
    }
    return this.#ownBiases.get(node);
  }

  #findAddedBias(value: string, steps: number): string | undefined {
    for (const user of this.#users.get(value) ?? []) {
      if (user.op === "Add") {
        const module = this.#ownBias(user);
        if (module !== undefined) return module;
      } else if (user.op === "Cast" || user.op === "Mul") {
        const module = this.#addedBias(user.outputs[0] ?? "", steps - 1);
        if (module !== undefined) return module;
      }
    }
    return undefined;
  }
}

function biasOf(name: string): string | undefined {
  return name.endsWith(".bias") ? name.slice(0, -".bias".length) : undefined;
}

/** "/encoder/layer.0/output/dense/MatMul" belongs to the module "encoder.layer.0.output.dense". */
function modulePath(nodeName: string): string | undefined {
  const match = /^\/(.+)\/(?:MatMul|Gemm)[^/]*$/.exec(nodeName);
  return match?.[1]?.replaceAll("/", ".");
}

/** The name that the weight already has. */
function moduleOf(initializer: string): string | undefined {
  const name = initializer.endsWith(QUANTIZED) ? initializer.slice(0, -QUANTIZED.length) : initializer;
  return name.endsWith(".weight") ? name.slice(0, -".weight".length) : undefined;
}
