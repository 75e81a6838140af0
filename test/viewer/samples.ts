import { readFileSync } from "node:fs";
import { buildAprn, buildWhisper, f32 } from "../builders/apr-layouts.ts";
import { loadFixture, loadSiblings } from "../support/fixtures.ts";
import { type Models, PASSWORD } from "./models.ts";

/** A file as a page's chooser takes it. */
export interface ChosenBytes {
  readonly name: string;
  readonly mimeType: string;
  readonly buffer: Buffer;
}

/** Something that the viewer can open. */
export interface Sample {
  /** The format and, where it has several layouts, which of them. */
  readonly title: string;
  readonly files: (models: Models) => readonly ChosenBytes[];
  readonly password?: string;
  /** Where there are none to look at. */
  readonly tensors?: "none";
}

const WHISPER_TENSOR = { name: "encoder.conv1.weight", shape: [2, 3], bytes: f32(1, 2, 3, 4, 5, 6) };

/** One of every format and of each of its layouts that other code reads; needs the models "paged", "vault" and "apr". */
export const SAMPLES: readonly Sample[] = [
  made("GGUF", "demo.gguf"),
  fixture("GGUF, big-endian", "gguf", "big-endian", "a.gguf"),
  made("SafeTensors", "demo.safetensors"),
  made("AERO", "demo.aero"),
  made("AERO with page, tensor and control hashes", "paged.aero"),
  made("AEROSET", "demo.aeroset.json", "demo-index.aero", "demo-part-000.aero"),
  made("APR", "demo.apr"),
  fixture("APR, compressed", "apr", "compressed", "a.apr"),
  { title: "APR in parts", files: () => withSiblings("model.apr", "apr", "set") },
  { ...made("APR, encrypted", "sealed.apr"), password: PASSWORD },
  made("APR of aprender", "wild.apr"),
  { title: "APR of whisper.apr", files: () => [chosen("w.apr", buildWhisper({ tensors: [WHISPER_TENSOR] }))] },
  {
    title: "APR of 2025",
    files: () => [chosen("n.apr", buildAprn({ payload: new Uint8Array(64) }))],
    tensors: "none",
  },
  made("EMBD", "demo.weights"),
  fixture("EMBD, stream", "embd", "stream", "a.weights"),
  fixture("EMBD, ADR-002", "embd", "adr", "a.weights"),
  fixture("ONNX", "onnx", "linear", "a.onnx"),
  { title: "ONNX with external data", files: () => withSiblings("external.onnx", "onnx", "external") },
  { ...made("vault", "v.aerovault"), password: PASSWORD },
  fixture("vault in the plaintext lane", "aerovault", "plain", "a.aerovault"),
  { ...fixture("vault, version 2", "aerovault2-sealed", "cascade", "a.aerovault"), password: "pass of cascade" },
  { ...fixture("vault, version 1", "aerovault1-sealed", "small", "a.aerovault"), password: "pass of zip" },
  fixture("AeroCorrect sidecar", "aerocorrect", "cross-impl-sidecar", "a.txt.aerocorrect"),
];

function made(title: string, ...names: readonly string[]): Sample {
  return { title, files: (models) => names.map((name) => chosen(name, readFileSync(models.path(name)))) };
}

function fixture(title: string, format: string, fixtureName: string, name: string): Sample {
  return { title, files: () => [chosen(name, loadFixture(format, fixtureName))] };
}

/** A fixture of several files, and what the first of them is called. */
function withSiblings(name: string, format: string, fixtureName: string): ChosenBytes[] {
  const siblings = [...loadSiblings(format, fixtureName)].map(([sibling, bytes]) => chosen(sibling, bytes));
  return [chosen(name, loadFixture(format, fixtureName)), ...siblings];
}

function chosen(name: string, bytes: Uint8Array): ChosenBytes {
  return { name, mimeType: "application/octet-stream", buffer: Buffer.from(bytes) };
}
