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
  const [, prefix = "", layer = "", rest = name] = /^((?:[^.]+\.)*?)(\d+\.)(.*)$/s.exec(name) ?? [];
  const [end = ""] = /(?:[^.]+\.)?[^.]*$/.exec(rest) ?? [];
  const before = rest.slice(0, rest.length - end.length);
  return layer === "" ? { prefix: before, layer, middle: "", end } : { prefix, layer, middle: before, end };
}
