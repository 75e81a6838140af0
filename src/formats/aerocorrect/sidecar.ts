import { type Bytes, concatBytes } from "../../base/bytes.ts";
import { encodeUtf8 } from "../../base/text.ts";
import type { Source } from "../../bytes/source.ts";
import type { Finding } from "../../model/finding.ts";
import { AVEC_HEADER_BYTES, type ReadableBytes } from "../../model/parity/avec.ts";
import type { Engine } from "../../primitives/engine.ts";

/** What a segment of a sidecar protects: a window of the file, by a payload of parity. */
export interface SidecarSegment {
  readonly windowOffset: number;
  readonly windowLength: number;
  /** Where its payload is in the sidecar; empty where the window is not protected. */
  readonly offset: number;
  readonly byteLength: number;
  /** The payload's first bytes as the directory has them: they outlive damage of the payload. */
  readonly avecHeader: Bytes | undefined;
}

/**
 * "file": the windows are all of a file, one behind the other. "vault": header, manifest and blocks of an AeroVault, by
 * their position; nothing else of the container is protected.
 */
export type SidecarKind = "file" | "vault";

/** A sidecar that was read. */
export interface Sidecar {
  readonly version: 1 | 2;
  readonly kind: SidecarKind;
  readonly label: string;
  /** Of the file that is protected. */
  readonly totalLength: number;
  /** Of the file that is protected. */
  readonly contentSha256: Bytes;
  readonly segments: readonly SidecarSegment[];
  /** What is damaged in the sidecar itself and was made up for. */
  readonly findings: readonly Finding[];
  readonly source: Source;
}

/** Says which sidecar belongs to which content (dossier 5.6). */
export function bindingId(engine: Engine, contentSha256: Bytes): Promise<Bytes> {
  return engine.digest("blake3", concatBytes([encodeUtf8("aerocorrect-binding-v1"), contentSha256]));
}

/** The payload of a segment, its first bytes as the directory has them. */
export function segmentPayload({ source }: Sidecar, segment: SidecarSegment): ReadableBytes {
  const { offset: start, byteLength, avecHeader } = segment;
  return {
    byteLength,
    read: async (offset, length) => {
      const bytes = await source.read(start + offset, length);
      if (avecHeader === undefined || offset >= AVEC_HEADER_BYTES) return bytes;
      const copy = bytes.slice();
      copy.set(avecHeader.subarray(offset, Math.min(AVEC_HEADER_BYTES, offset + length)));
      return copy;
    },
  };
}
