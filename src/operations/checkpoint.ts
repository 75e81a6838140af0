import type { FormatWriter, Opened, ValueDecoder } from "../model/format.ts";
import { huggingFaceCheckpoint } from "../model/ggml/hugging-face.ts";
import type { Model } from "../model/model.ts";
import { selectedContent } from "./convert/content.ts";
import { refuseLosses } from "./convert.ts";

interface CheckpointContext {
  /** Of the format that checkpoints have: what came from it gets the names that it had there. */
  readonly target: FormatWriter;
  /** The formats that the model has been in. */
  readonly formats: readonly ValueDecoder[];
}

/** Names and values as `convert` with the option rename would write them; refuses what that refuses. */
export function checkpointOf(
  opened: Opened,
  { target, formats }: CheckpointContext,
): Pick<Model, "tensors" | "metadata"> {
  const options = { name: "model.safetensors", formats: [...formats, target], rename: huggingFaceCheckpoint };
  const { selected } = selectedContent(opened, options, target);
  refuseLosses(selected.losses ?? [], "compare as a checkpoint", opened.container.parts[0]?.label ?? opened.format.id);
  return selected;
}
