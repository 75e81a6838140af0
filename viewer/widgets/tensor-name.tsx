/**
 * In a narrow cell the prefix is cut first, then the middle. Layer and end stay. The cell needs the whole name as its
 * label: programs that read the page aloud put a space between the parts.
 */
export function TensorName({ name }: { readonly name: string }) {
  const { prefix, layer, middle, end } = namePartsOf(name);
  return (
    <span class="tensor-name">
      <span class="prefix">{prefix}</span>
      <span class="layer">{layer}</span>
      <span class="middle">{middle}</span>
      <span class="end">{end}</span>
    </span>
  );
}

/** A tensor's name by its parts, so that a narrow list can leave out those that tell least. */
export interface NameParts {
  /** "model.layers." */
  readonly prefix: string;
  /** "12."; empty for names without one. */
  readonly layer: string;
  /** "self_attn." */
  readonly middle: string;
  /** "q_proj.weight" */
  readonly end: string;
}

/** The first number between two dots is the layer; the last two words name the tensor in it. */
export function namePartsOf(name: string): NameParts {
  const { prefix, layer } = layerOf(name);
  const rest = name.slice(prefix.length + layer.length);
  const last = rest.lastIndexOf(".");
  const word = last > 0 ? rest.lastIndexOf(".", last - 1) + 1 : last;
  // An empty word before the last dot is none.
  const cut = last < 0 ? 0 : word === last ? last + 1 : word;
  const before = rest.slice(0, cut);
  const end = rest.slice(cut);
  return layer === "" ? { prefix: before, layer, middle: "", end } : { prefix, layer, middle: before, end };
}

/** The words before the layer's number, and the number; a name may be long, so each word is looked at once. */
function layerOf(name: string): Pick<NameParts, "prefix" | "layer"> {
  for (let start = 0; ; ) {
    const dot = name.indexOf(".", start);
    if (dot <= start) return { prefix: "", layer: "" };
    if (/^\d+$/.test(name.slice(start, dot)))
      return { prefix: name.slice(0, start), layer: name.slice(start, dot + 1) };
    start = dot + 1;
  }
}
