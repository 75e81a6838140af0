import { namePartsOf } from "./name-parts.ts";

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
