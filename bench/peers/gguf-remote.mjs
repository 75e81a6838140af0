import { gguf } from "@huggingface/gguf";

// The documented one-liner for a remote file, then as little output as proves that the header was read.
const { metadata, tensorInfos } = await gguf(process.argv[2]);
console.log(
  JSON.stringify({
    architecture: metadata["general.architecture"],
    tokens: metadata["tokenizer.ggml.tokens"].length,
    merges: metadata["tokenizer.ggml.merges"].length,
    tensors: tensorInfos.length,
  }),
);
